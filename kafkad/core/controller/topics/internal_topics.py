"""How are the internal topics made? As the configuration says, with as many replicas as there are brokers.

A single broker must work without being told that it is one; Apache Kafka refuses to make the topics instead.
"""

from dataclasses import replace

from kafkad.core.controller.topics.topics import NewTopic

MIN_IN_SYNC = "min.insync.replicas"


def fitted(wanted: NewTopic, brokers: int) -> NewTopic:
    """`wanted` with what `brokers` live brokers can give; the same object when that is all of it."""
    granted = min(wanted.replication_factor, max(1, brokers))
    if granted == wanted.replication_factor:
        return wanted
    configs = tuple(
        (name, _at_most(value, granted) if name == MIN_IN_SYNC else value) for name, value in wanted.configs
    )
    return replace(wanted, replication_factor=granted, configs=configs)


def _at_most(value: str | None, replicas: int) -> str | None:
    """No topic may ask for more replicas in sync than it has: nothing could be written to it."""
    return None if value is None else str(min(int(value), replicas))
