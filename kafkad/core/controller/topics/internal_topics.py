"""Internal topics of a single broker are created with the replicas that it can have, whatever the configuration says.

It must work without special settings; Apache Kafka refuses to create the topics instead, and so does a cluster.
"""

from dataclasses import replace

from kafkad.core.controller.topics.topics import NewTopic

MIN_IN_SYNC = "min.insync.replicas"


def fitted(wanted: NewTopic) -> NewTopic:
    """`wanted` as a single broker can have it; the same object when that changes nothing."""
    if wanted.replication_factor == 1:
        return wanted
    # With more in sync than there are replicas no write would succeed.
    configs = tuple((name, "1" if name == MIN_IN_SYNC and value else value) for name, value in wanted.configs)
    return replace(wanted, replication_factor=1, configs=configs)
