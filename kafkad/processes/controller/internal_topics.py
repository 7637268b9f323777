"""The configuration of the internal topics, and the warnings when there are too few brokers for it."""

import logging
from collections.abc import Iterable, Mapping

from kafkad.config.entities.broker import BrokerConfig
from kafkad.core.controller.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkad.core.controller.topics.topics import NewTopic, TopicResult
from kafkad.core.errors import ErrorCode
from kafkad.core.settings.values import integer

log = logging.getLogger(__name__)


def internal_topics(config: BrokerConfig) -> dict[str, NewTopic]:
    """The internal topics by name; they are created when first required."""
    topics = (
        NewTopic(
            name=GROUP_METADATA_TOPIC,
            partitions=integer(config.values, "offsets.topic.num.partitions"),
            replication_factor=integer(config.values, "offsets.topic.replication.factor"),
            configs=(
                ("cleanup.policy", "compact"),
                ("compression.type", "producer"),
                ("segment.bytes", str(integer(config.values, "offsets.topic.segment.bytes"))),
            ),
        ),
        NewTopic(
            name=TRANSACTION_STATE_TOPIC,
            partitions=integer(config.values, "transaction.state.log.num.partitions"),
            replication_factor=integer(config.values, "transaction.state.log.replication.factor"),
            configs=(
                ("cleanup.policy", "compact"),
                ("compression.type", "uncompressed"),
                ("min.insync.replicas", str(integer(config.values, "transaction.state.log.min.isr"))),
                ("segment.bytes", str(integer(config.values, "transaction.state.log.segment.bytes"))),
                ("unclean.leader.election.enable", "false"),
            ),
        ),
    )
    return {topic.name: topic for topic in topics}


def warn_of_few_replicas(created: Iterable[str], internal: Mapping[str, NewTopic], brokers: int) -> None:
    """Warn about each internal topic with fewer replicas than configured."""
    for name in created:
        if name in internal and internal[name].replication_factor > brokers:
            log.warning(
                "%s is created with %d replica(s), not the configured %d, because there are too few brokers: "
                "committed data is as safe as this broker's disk",
                name,
                brokers,
                internal[name].replication_factor,
            )


class CreationFailures:
    """Log why an internal topic can't be created, once for each reason: clients get no reason and keep retrying."""

    def __init__(self) -> None:
        self._logged: dict[str, str | None] = {}

    def report(self, results: Iterable[TopicResult], internal: Mapping[str, NewTopic]) -> None:
        for result in results:
            if result.name not in internal or result.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if result.code is ErrorCode.NONE:
                self._logged.pop(result.name, None)
            elif self._logged.get(result.name) != (reason := result.message or result.code.name):
                self._logged[result.name] = reason
                log.error("can't create %s, its coordinators are not available: %s", result.name, reason)
