"""Selects the partitions that may need cleaning, and plans their cleanup with the policies of their topics.

`policy_calls` decides which policies are suspended.
"""

import logging
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import replace
from functools import partial
from operator import eq
from typing import NamedTuple, Protocol
from uuid import UUID

from kafkad.config import BrokerConfig, topic_log_config, with_plugin_configs
from kafkad.config.entities.topic import unreadable_topic_configs
from kafkad.core.cleaning.cleanable import CleanableRange, cleanable_range
from kafkad.core.cleanup import (
    CleanupPolicy,
    DeleteSegments,
    LogSummary,
    RewriteSegments,
    RollActive,
    SegmentSummary,
    TransferSegments,
)
from kafkad.core.controller.deltas import BrokerConfigChanged, MetadataDelta, Snapshot, TopicConfigChanged
from kafkad.core.controller.image import MetadataImage, Partition, Topic
from kafkad.core.controller.topics.names import GROUP_METADATA_TOPIC
from kafkad.core.exported_offsets import ExportedOffsets
from kafkad.core.log.settings import LogConfig
from kafkad.core.partition_slot import STATE_ONLINE, PartitionSlot
from kafkad.core.retention import bytes_to_export
from kafkad.core.settings.option import Setting
from kafkad.processes.cleaner.early_checks import EarlyChecks
from kafkad.processes.cleaner.log_states import LogKey
from kafkad.processes.cleaner.policy_calls import PolicyCalls
from kafkad.processes.cleaner.slow_policies import PolicyCall
from kafkad.wire.processes.descriptors import CleanupOrdered, SegmentsOf, short_topic_id


class TopicSettings:
    """The settings for cleaning the logs of a topic, parsed when a configuration changes: each change creates a new
    object. A topic with an unreadable value is not cleaned, because its retention is unknown.

    `topic_configs`: the topic configs of plugins.
    """

    def __init__(self, topic_configs: Mapping[str, Setting]) -> None:
        self._topic_configs = topic_configs
        self._read: dict[UUID, tuple[BrokerConfig, Mapping[str, str], LogConfig]] = {}

    def of(self, topic: Topic, broker: BrokerConfig) -> LogConfig:
        """The present settings of `topic`."""
        cached = self._read.get(topic.id)
        if cached is not None and cached[0] is broker and cached[1] is topic.configs:
            return cached[2]
        settings = with_plugin_configs(topic_log_config(broker, topic.configs), topic.configs, self._topic_configs)
        if unreadable_topic_configs(topic.configs):
            settings = replace(settings, cleanup_policy=frozenset())
        self._read[topic.id] = (broker, topic.configs, settings)
        return settings

    def keep(self, topic_ids: Container[UUID]) -> None:
        """Forget all other topics."""
        self._read = {topic_id: cached for topic_id, cached in self._read.items() if topic_id in topic_ids}


log = logging.getLogger(__name__)

COMPACT = "compact"
DELETE = "delete"
DELETE_EXPORTED = "delete-exported"
_NOTHING = -1


class SlotReader(Protocol):
    """The partition table."""

    def read(self, slot: int) -> PartitionSlot: ...


RequestedPartitions = dict[int, list[tuple[int, int]]]
"""(slot, short_id) of partitions, by the worker that owns them."""


class PlannedRewrite(NamedTuple):
    """A compaction that a policy has planned for this process."""

    slot: int
    short_id: int
    topic: Topic
    partition: Partition
    settings: LogConfig
    policy: str
    effect: RewriteSegments


class CheckedLog(NamedTuple):
    """The dirty part of a compacted log, whether or not a compaction is planned."""

    topic: Topic
    partition: Partition
    cleanable: CleanableRange


class PlannedTransfer(NamedTuple):
    """Segments that a policy deletes only after a receiver has got them."""

    slot: int
    topic: Topic
    partition: Partition
    log: LogSummary
    effect: TransferSegments


class Planner:
    """Plans for the slots of cleaner `index` of `cleaners`.

    `topic_configs`: the topic configs of plugins.
    """

    def __init__(
        self,
        policies: Mapping[str, CleanupPolicy],
        table: SlotReader,
        *,
        cleaners: int,
        index: int,
        topic_configs: Mapping[str, Setting],
        early_checks: EarlyChecks,
    ) -> None:
        self._policies = PolicyCalls(policies, early_checks)
        self._table = table
        self._cleaners, self._index = cleaners, index
        self._settings = TopicSettings(topic_configs)
        self._image = MetadataImage()
        self._requested: dict[int, tuple[Topic, Partition]] = {}
        self._last_seen: dict[int, tuple[int, int, int]] = {}
        """The slots of compacted partitions at the last check."""
        self._awaiting_sync: set[int] = set()
        """Slots of compacted partitions with sealed segments that are not stable, or not on disk with all markers."""
        self.exported = ExportedOffsets()
        self._to_export: dict[tuple[UUID, int], int] = {}
        """The bytes that wait for an export, by partition with the policy `delete-exported`."""
        self.has_compacted = False
        """Whether a topic is compacted, at the last check."""

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """`image` is the metadata after `delta`. A changed configuration ends the quarantine of its partitions."""
        self._image = image
        for change in delta.changes:
            match change:
                case TopicConfigChanged(name, _):
                    self._policies.release(partial(eq, image.topics[name].id))
                case BrokerConfigChanged():
                    self.reconfigured()
                case Snapshot():
                    self._policies.release(lambda topic_id: topic_id not in image.names_by_id)

    def reconfigured(self) -> None:
        """The broker's configuration has changed: end all quarantines."""
        self._policies.release(lambda _: True)

    def begin_round(self, config: BrokerConfig) -> RequestedPartitions:
        """The partitions to check."""
        self._requested.clear()
        self._settings.keep(self._image.names_by_id)
        selected = self._select(config, lambda topic, row: True)
        requested = {(topic.id, row.index) for topic, row in self._requested.values()}
        self._to_export = {key: size for key, size in self._to_export.items() if key in requested}
        return selected

    def begin_check(
        self,
        config: BrokerConfig,
        topics: Collection[UUID],
        log_dirs: Collection[int],
        partitions: Collection[tuple[UUID, int]],
    ) -> RequestedPartitions:
        """The partitions to check before the next round: of these topics, in these log directories, and these ones."""

        def is_selected(topic: Topic, row: Partition) -> bool:
            return topic.id in topics or row.log_dir in log_dirs or (topic.id, row.index) in partitions

        return self._select(config, is_selected)

    def begin_compaction_check(
        self, config: BrokerConfig, needs_check: Callable[[LogKey], bool]
    ) -> RequestedPartitions:
        """The compacted partitions that may have segments to compact since the last check.

        `needs_check` returns whether an unchanged log is due for another check.
        """
        self.has_compacted = any(self._is_compacted(topic, config) for topic in self._image.topics.values())

        def may_be_due(topic: Topic, row: Partition) -> bool:
            if not self._is_compacted(topic, config):
                return False
            return self._has_moved(row) or needs_check(LogKey(topic.id, row.index, row.log_dir))

        return self._select(config, may_be_due)

    def is_compacted(self, topic_id: UUID, config: BrokerConfig) -> bool:
        """Whether the topic exists, with the policy `compact`."""
        name = self._image.names_by_id.get(topic_id)
        return name is not None and self._is_compacted(self._image.topics[name], config)

    def waits_for_exports(self, config: BrokerConfig) -> bool:
        """Whether a topic has the policy `delete-exported`."""
        topics = self._image.topics.values()
        return any(DELETE_EXPORTED in self._policy_names(self._settings.of(topic, config), config) for topic in topics)

    @property
    def has_all_exports(self) -> bool:
        """Whether the offsets of all export groups are known."""
        groups = self._image.topics.get(GROUP_METADATA_TOPIC)
        return self.exported.is_complete(0 if groups is None else len(groups.partitions))

    @property
    def bytes_to_export(self) -> int:
        return sum(self._to_export.values())

    @property
    def failed_policies(self) -> dict[tuple[UUID, int], str]:
        """The reasons why nothing is planned, by partition."""
        return self._policies.failures

    def _is_compacted(self, topic: Topic, config: BrokerConfig) -> bool:
        return COMPACT in self._policy_names(self._settings.of(topic, config), config)

    def _has_moved(self, row: Partition) -> bool:
        """Whether the segments have changed, or more of them are below the first uncleanable offset."""
        slot = self._table.read(row.slot)
        # Markers in the active segment are synced only if a sealed segment waits for them.
        on_disk = slot.recovery_point if row.slot in self._awaiting_sync else min(slot.recovery_point, slot.leo_segment)
        current = (slot.generation, slot.lso_segment, on_disk)
        if self._last_seen.get(row.slot) == current:
            return False
        self._last_seen[row.slot] = current
        return slot.segment_count > 1

    def _select(self, config: BrokerConfig, is_selected: Callable[[Topic, Partition], bool]) -> RequestedPartitions:
        selected: dict[int, list[tuple[int, int]]] = {}
        for topic in self._image.topics.values():
            if not self._policy_names(self._settings.of(topic, config), config):
                continue
            short_id = short_topic_id(topic.id.bytes)
            for row in topic.partitions:
                if row.slot >= 0 and is_selected(topic, row) and self._may_need_cleaning(topic, row):
                    self._requested[row.slot] = (topic, row)
                    selected.setdefault(row.owner, []).append((row.slot, short_id))
        return selected

    def _may_need_cleaning(self, topic: Topic, row: Partition) -> bool:
        if row.owner < 0 or row.slot < 0 or row.log_dir < 0 or row.slot % self._cleaners != self._index:
            return False
        slot = self._table.read(row.slot)
        is_empty = slot.segment_count == 1 and slot.size_bytes == 0
        return slot.state == STATE_ONLINE and slot.topic_id == topic.id.bytes and not is_empty

    def _policy_names(self, config: LogConfig, broker: BrokerConfig) -> list[str]:
        """The existing policies of a topic. Without `log.cleaner.enable`, Kafka's policies neither compact a topic with
        `compact` nor delete its segments (Kafka: LogManager.cleanupLogs).
        """
        names = sorted(name for name in config.cleanup_policy if name in self._policies)
        if COMPACT in names and broker.values["log.cleaner.enable"] is False:
            return [name for name in names if name not in (COMPACT, DELETE)]
        return names

    def requested(self, slot: int) -> tuple[Topic, Partition] | None:
        """The requested log of this slot."""
        return self._requested.get(slot)

    def plan(
        self, described: SegmentsOf, config: BrokerConfig, now_ms: int
    ) -> Iterator[CleanupOrdered | PlannedRewrite | PlannedTransfer | CheckedLog]:
        """The orders of the policies for one log; nothing for a topic that was deleted or recreated meanwhile."""
        requested = self._requested.pop(described.slot, None)
        if requested is None or not described.segments:
            return
        topic, row = requested
        now = self._image.topics.get(topic.name)
        if now is None or now.id != topic.id:
            return
        settings = self._settings.of(now, config)
        summary = _summary(topic.name, row.index, described)
        names = self._policy_names(settings, config)
        self._to_export.pop((topic.id, row.index), None)
        if DELETE_EXPORTED in names:
            exported = self.exported.of(topic.id, row.index) if self.has_all_exports else None
            summary = replace(summary, exported_offset=exported)
            self._to_export[topic.id, row.index] = bytes_to_export(summary, settings, now_ms)
        for name in names:
            if name == COMPACT:
                self._note_sync_needed(described)
                yield CheckedLog(now, row, cleanable_range(summary, settings, now_ms))
            for effect in self._policies.plan(PolicyCall(topic.id, row.index, name), summary, settings, now_ms):
                short_id = short_topic_id(topic.id.bytes)
                if isinstance(effect, RewriteSegments):
                    yield PlannedRewrite(row.slot, short_id, now, row, settings, name, effect)
                    continue
                if isinstance(effect, TransferSegments):
                    yield PlannedTransfer(row.slot, now, row, summary, effect)
                    continue
                order = _order(row.slot, short_id, effect, summary)
                # The owner logs the outcome at level info.
                log.debug("%s-%d: %s", topic.name, row.index, _description(order, name))
                yield order

    def _note_sync_needed(self, described: SegmentsOf) -> None:
        if described.cleanable_end < described.segments[-1].base_offset:
            self._awaiting_sync.add(described.slot)
        else:
            self._awaiting_sync.discard(described.slot)


def _summary(topic: str, partition: int, described: SegmentsOf) -> LogSummary:
    return LogSummary(
        topic=topic,
        partition=partition,
        log_start_offset=described.log_start_offset,
        high_watermark=described.high_watermark,
        log_end_offset=described.log_end_offset,
        cleanable_end=described.cleanable_end,
        cleaned_offset=described.cleaned_offset,
        segments=tuple(
            SegmentSummary(
                base_offset=row.base_offset,
                size_bytes=row.size_bytes,
                largest_timestamp_ms=row.largest_timestamp_ms,
                last_modified_ms=row.last_modified_ms,
                is_active=row.is_active,
                first_timestamp_ms=row.first_timestamp_ms,
            )
            for row in described.segments
        ),
    )


def _order(slot: int, short_id: int, effect: DeleteSegments | RollActive, of: LogSummary) -> CleanupOrdered:
    """A deletion ends at the planned end of its last segment: cleaning may have merged it with later ones since."""
    match effect:
        case DeleteSegments():
            later = (each.base_offset for each in of.segments if each.base_offset > effect.up_to_base_offset)
            end = next(later, of.log_end_offset)
            return CleanupOrdered(slot, short_id, False, effect.up_to_base_offset, end, effect.reason)
        case RollActive():
            return CleanupOrdered(slot, short_id, True, _NOTHING, of.log_end_offset, effect.reason)


def _description(order: CleanupOrdered, policy: str) -> str:
    if order.roll:
        return f"roll a new segment ({policy}: {order.reason})"
    return f"segments up to base offset {order.delete_up_to} are deleted ({policy}: {order.reason})"
