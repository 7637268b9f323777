"""A single broker creates internal topics with one replica, whatever the configuration says.

So it works without special settings. Apache Kafka, and a cluster of kafkad, reject the creation with too few brokers.
"""

from dataclasses import replace

from kafkad.core.controller.topics.topics import NewTopic

MIN_IN_SYNC = "min.insync.replicas"


def with_single_replica(topic: NewTopic) -> NewTopic:
    """`topic` with one replica; the same object if it has one already."""
    if topic.replication_factor == 1:
        return topic
    # With a higher min.insync.replicas no write would succeed.
    configs = tuple((name, "1" if name == MIN_IN_SYNC and value else value) for name, value in topic.configs)
    return replace(topic, replication_factor=1, configs=configs)
