"""The shards of a worker by internal topic, and their settings.

A shard gets the present settings when it is created; `configure` changes the dynamic ones.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from kafkad.adapters.patterns import compile_pattern
from kafkad.config.entities.broker import BrokerConfig
from kafkad.config.entities.group import within_limits
from kafkad.core.controller.features import TRANSACTION_VERSION
from kafkad.core.controller.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkad.core.coordinator.batches import RecordCodec
from kafkad.core.coordinator.producer_ids import ProducerIdBlocks
from kafkad.core.coordinator.shard import Moment, Outcome, Shard
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.consumer.assignors import GroupAssignor
from kafkad.core.groups.consumer.config import ConsumerConfig, MigrationPolicy
from kafkad.core.groups.consumer.topics import Subscriptions
from kafkad.core.groups.shard import GroupShard
from kafkad.core.log.records.batch import Codec
from kafkad.core.metrics.catalogue import CONSUMER_REBALANCES
from kafkad.core.metrics.counting import Block
from kafkad.core.settings.values import integer
from kafkad.core.transactions.config import TransactionConfig
from kafkad.core.transactions.shard import TransactionShard
from kafkad.processes.worker.partitions import Partitions
from kafkad.wire.records import group_records, transaction_records

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardKind:
    """`create_shard(leader epoch)` creates an empty shard; the next two notify a shard of changes of the metadata.

    `outlives_leader_epochs`: the shard continues in the next epoch. Transactions do not: their markers have the epoch.
    """

    create_shard: Callable[[int], Shard[Any]]
    configure: Callable[[Any], None]
    topics_deleted: Callable[[Any, Mapping[str, Set[UUID]], Moment], Outcome[Any]] = lambda *_: Outcome()
    """Topics by name and id."""
    codec: RecordCodec[Any]
    compression: Codec = Codec.NONE
    timeout_ms: int = 5_000
    outlives_leader_epochs: bool = False


class MetadataTopics:
    """The topics of this worker's copy of the metadata: see `Topics`."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._version = -1
        self._names: frozenset[str] = frozenset()

    def partitions_of(self, name: str) -> int | None:
        topic = self._partitions.image.topics.get(name)
        return None if topic is None else len(topic.partitions)

    def id_of(self, name: str) -> UUID | None:
        topic = self._partitions.image.topics.get(name)
        return None if topic is None else topic.id

    def name_of(self, topic_id: UUID) -> str | None:
        return self._partitions.image.names_by_id.get(topic_id)

    def names(self) -> frozenset[str]:
        image = self._partitions.image
        if image.version != self._version:
            names = frozenset(image.topics)
            self._version = image.version
            # Keep the same object until the topics change.
            self._names = self._names if names == self._names else names
        return self._names


def shard_kinds(
    config: BrokerConfig,
    partitions: Partitions,
    producer_ids: ProducerIdBlocks,
    assignors: Mapping[str, GroupAssignor],
    block: Block,
) -> Mapping[str, ShardKind]:
    """By internal topic. `assignors` are registered by plugins; `block` has the counters of this process."""
    groups, transactions, topics = group_config(config), transaction_config(config), MetadataTopics(partitions)

    def consumers_now() -> ConsumerConfig:
        now, configs = partitions.config, partitions.image.group_configs
        of_groups = {group_id: within_limits(now, texts) for group_id, texts in configs.items()}
        return replace(consumer_config(now, assignors), group_configs=of_groups)

    def rebalanced() -> None:
        block[CONSUMER_REBALANCES] += 1

    def group_shard(_leader_epoch: int) -> GroupShard:
        subscriptions = Subscriptions(topics, lambda: partitions.image.version, compile_pattern)
        return GroupShard(groups, topics, lambda: str(uuid4()), consumers_now(), subscriptions, rebalanced)

    def transactions_now() -> TransactionConfig:
        level = partitions.image.features.get(TRANSACTION_VERSION, 0)
        return replace(transactions, transaction_version=level)

    def transaction_shard(leader_epoch: int) -> TransactionShard:
        producer_ids.prefetch()
        return TransactionShard(transactions_now(), topics, producer_ids, leader_epoch, compile_pattern)

    commit_timeout_ms = integer(config.values, "offsets.commit.timeout.ms")
    return {
        GROUP_METADATA_TOPIC: ShardKind(
            create_shard=group_shard,
            configure=lambda shard: shard.configure(consumers_now()),
            topics_deleted=lambda shard, ids, moment: shard.offsets.topics_deleted(ids, moment),
            codec=group_records,
            compression=Codec(integer(config.values, "offsets.topic.compression.codec")),
            timeout_ms=commit_timeout_ms,
            outlives_leader_epochs=True,
        ),
        TRANSACTION_STATE_TOPIC: ShardKind(
            create_shard=transaction_shard,
            configure=lambda shard: shard.configure(transactions_now()),
            codec=transaction_records,
            timeout_ms=commit_timeout_ms,
        ),
    }


def group_config(config: BrokerConfig) -> GroupConfig:
    return GroupConfig(
        min_session_timeout_ms=integer(config.values, "group.min.session.timeout.ms"),
        max_session_timeout_ms=integer(config.values, "group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=integer(config.values, "group.initial.rebalance.delay.ms"),
        max_size=integer(config.values, "group.max.size"),
        offset_metadata_max_bytes=integer(config.values, "offset.metadata.max.bytes"),
        offsets_retention_ms=integer(config.values, "offsets.retention.minutes") * _MINUTE_MS,
        offsets_retention_check_interval_ms=integer(config.values, "offsets.retention.check.interval.ms"),
    )


def consumer_config(config: BrokerConfig, assignors: Mapping[str, GroupAssignor]) -> ConsumerConfig:
    return ConsumerConfig(
        assignors={name: assignors[name] for name in config.plugins.group_assignors},
        session_timeout_ms=integer(config.values, "group.consumer.session.timeout.ms"),
        heartbeat_interval_ms=integer(config.values, "group.consumer.heartbeat.interval.ms"),
        assignment_interval_ms=integer(config.values, "group.consumer.assignment.interval.ms"),
        max_size=integer(config.values, "group.consumer.max.size"),
        migration_policy=MigrationPolicy(str(config.values["group.consumer.migration.policy"]).lower()),
    )


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    return TransactionConfig(
        max_timeout_ms=integer(config.values, "transaction.max.timeout.ms"),
        transactional_id_expiration_ms=integer(config.values, "transactional.id.expiration.ms"),
        expiration_interval_ms=integer(config.values, "transaction.remove.expired.transaction.cleanup.interval.ms"),
        abort_interval_ms=integer(config.values, "transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        offsets_partitions=integer(config.values, "offsets.topic.num.partitions"),
    )
