"""Internal topics are created as the configuration says, but with no more replicas than there are brokers.

A single broker must work without special settings; Apache Kafka refuses to create the topics instead.
"""

from dataclasses import replace

from kafkad.core.controller.topics.topics import NewTopic

MIN_IN_SYNC = "min.insync.replicas"


def fitted(wanted: NewTopic, brokers: int) -> NewTopic:
    """`wanted` with as many replicas as `brokers` live brokers allow; the same object when that changes nothing."""
    granted = min(wanted.replication_factor, max(1, brokers))
    if granted == wanted.replication_factor:
        return wanted
    configs = tuple(
        (name, _at_most(value, granted) if name == MIN_IN_SYNC else value) for name, value in wanted.configs
    )
    return replace(wanted, replication_factor=granted, configs=configs)


def _at_most(value: str | None, replicas: int) -> str | None:
    """min.insync.replicas must not exceed the number of replicas: no write would succeed."""
    return None if value is None else str(min(int(value), replicas))
