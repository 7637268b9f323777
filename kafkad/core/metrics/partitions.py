"""Metrics from the partition table: traffic and size of topics, and counts of this broker's replicas."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from kafkad.core.metrics.metric import Labels, MetricFamily, MetricKind, Sample, server_gauge
from kafkad.core.metrics.replication import lag_families
from kafkad.core.partition_slot import ROLE_FOLLOWER, ROLE_LEADER, STATE_OFFLINE, PartitionSlot


class PartitionReading(NamedTuple):
    """One hosted partition: its slot, its traffic since it got the slot, its replicas and its in-sync replicas.

    `replicas` does not include replicas that a reassignment adds (KIP-352).
    """

    topic: str
    slot: PartitionSlot
    messages_in: int
    bytes_in: int
    bytes_out: int
    replicas: int = 1
    in_sync: int = 1
    lag: int = 0
    """The lag of a follower in records."""


_NOWHERE = -1
_gauge = partial(server_gauge, "ReplicaManager")
_FUTURE: Labels = (("is_future", "true"),)
"""For a log that is copied to another directory (Apache Kafka's tag `is-future` is no valid label)."""


class _LogOffsets(NamedTuple):
    labels: Labels
    start: int
    end: int


class _Led:
    """Counts of the partitions that this broker leads."""

    __slots__ = ("at_min_isr", "count", "under_min_isr", "under_replicated")

    def __init__(self) -> None:
        self.count = self.under_replicated = self.under_min_isr = self.at_min_isr = 0

    def add(self, partition: PartitionReading) -> None:
        self.count += 1
        self.under_replicated += partition.in_sync < partition.replicas
        self.under_min_isr += partition.in_sync < partition.slot.min_in_sync
        self.at_min_isr += partition.in_sync == partition.slot.min_in_sync

    def families(self) -> Iterator[MetricFamily]:
        yield _gauge("LeaderCount", "Partitions that this broker leads.", self.count)
        yield _gauge("UnderReplicatedPartitions", "Of these: not all replicas are in sync.", self.under_replicated)
        yield _gauge(
            "UnderMinIsrPartitionCount",
            "Of these: fewer in-sync replicas than min.insync.replicas.",
            self.under_min_isr,
        )
        yield _gauge(
            "AtMinIsrPartitionCount", "Of these: exactly min.insync.replicas in-sync replicas.", self.at_min_isr
        )


class _Totals:
    __slots__ = ("bytes_in", "bytes_out", "messages_in", "segments", "size_bytes")

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = self.size_bytes = self.segments = 0

    def add(self, partition: PartitionReading) -> None:
        self.messages_in += partition.messages_in
        self.bytes_in += partition.bytes_in
        self.bytes_out += partition.bytes_out
        self.size_bytes += partition.slot.size_bytes
        self.segments += partition.slot.segment_count


def partition_families(partitions: Iterable[PartitionReading], *, per_partition: bool) -> Iterator[MetricFamily]:
    """Traffic by topic, size by topic or by partition, and the number of replicas by state."""
    totals: dict[Labels, _Totals] = defaultdict(_Totals)
    sizes: dict[Labels, _Totals] = defaultdict(_Totals) if per_partition else totals
    led = _Led()
    hosted = offline = 0
    lags: list[tuple[Labels, int]] = []
    offsets: list[_LogOffsets] = []
    future_bytes: dict[Labels, int] = defaultdict(int)
    for partition in partitions:
        labels: Labels = (("topic", partition.topic),)
        totals[labels].add(partition)
        hosted += 1
        if partition.slot.role == ROLE_LEADER:
            led.add(partition)
        elif partition.slot.role == ROLE_FOLLOWER:
            lags.append(((*labels, ("partition", str(partition.slot.partition))), partition.lag))
        offline += partition.slot.state == STATE_OFFLINE
        slot = partition.slot
        own: Labels = (*labels, ("partition", str(slot.partition))) if per_partition else labels
        if per_partition:
            sizes[own].add(partition)
            offsets.append(_LogOffsets(own, slot.log_start, slot.leo_offset))
        if slot.future_dir not in (_NOWHERE, slot.log_dir):
            future = (*own, *_FUTURE)
            future_bytes[future] += slot.future_bytes
            if per_partition:
                # The copy may end below the current log start offset.
                offsets.append(_LogOffsets(future, min(slot.log_start, slot.future_end), slot.future_end))
    yield from led.families()
    yield _gauge("PartitionCount", "Partitions that this broker hosts.", hosted)
    yield _gauge("OfflineReplicaCount", "Partitions in an offline log directory.", offline)
    yield from _traffic(totals)
    yield from _sizes(sizes, future_bytes)
    if per_partition:
        yield from _offsets(offsets)
    yield from lag_families(lags, per_partition=per_partition)


def _traffic(totals: dict[Labels, _Totals]) -> Iterator[MetricFamily]:
    for mbean, field, text in (
        ("MessagesInPerSec", "messages_in", "Records appended."),
        ("BytesInPerSec", "bytes_in", "Bytes of records appended."),
        ("BytesOutPerSec", "bytes_out", "Bytes of records sent to consumers."),
    ):
        yield MetricFamily(
            name=f"kafka_server_brokertopicmetrics_{mbean.removesuffix('PerSec').lower()}",
            jmx_name=f"kafka.server:type=BrokerTopicMetrics,name={mbean}",
            kind=MetricKind.COUNTER,
            help=text,
            samples=tuple(Sample(labels=labels, value=getattr(topic, field)) for labels, topic in totals.items()),
        )


def _sizes(totals: dict[Labels, _Totals], future_bytes: dict[Labels, int]) -> Iterator[MetricFamily]:
    sizes = {labels: topic.size_bytes for labels, topic in totals.items()}
    yield _log_gauge("Size", "Bytes on disk.", {**sizes, **future_bytes}.items())
    segments = {labels: topic.segments for labels, topic in totals.items()}
    yield _log_gauge("NumLogSegments", "Segment files.", segments.items())


def _offsets(logs: list[_LogOffsets]) -> Iterator[MetricFamily]:
    yield _log_gauge("LogStartOffset", "First offset of the log.", [(log.labels, log.start) for log in logs])
    yield _log_gauge("LogEndOffset", "Offset of the next record.", [(log.labels, log.end) for log in logs])


def _log_gauge(mbean: str, text: str, rows: Iterable[tuple[Labels, int]]) -> MetricFamily:
    return MetricFamily(
        name=f"kafka_log_log_{mbean.lower()}",
        jmx_name=f"kafka.log:type=Log,name={mbean}",
        kind=MetricKind.GAUGE,
        help=text,
        samples=tuple(Sample(labels=labels, value=value) for labels, value in rows),
    )
