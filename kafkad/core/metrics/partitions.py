"""Metrics from the partition table: traffic and size of topics, and counts of this broker's replicas."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkad.core.metrics.metric import Labels, MetricFamily, MetricKind, Sample
from kafkad.core.partition_slot import ROLE_LEADER, STATE_OFFLINE, PartitionSlot


class PartitionReading(NamedTuple):
    """One hosted partition: its slot and its traffic since it got the slot."""

    topic: str
    slot: PartitionSlot
    messages_in: int
    bytes_in: int
    bytes_out: int


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


def partition_families(
    partitions: Iterable[PartitionReading], *, per_partition: bool
) -> Iterator[MetricFamily]:
    """Traffic by topic, size by topic or by partition, and the number of replicas by state."""
    totals: dict[Labels, _Totals] = defaultdict(_Totals)
    sizes: dict[Labels, _Totals] = defaultdict(_Totals) if per_partition else totals
    hosted = leaders = offline = 0
    offsets: list[tuple[Labels, PartitionSlot]] = []
    for partition in partitions:
        labels: Labels = (("topic", partition.topic),)
        totals[labels].add(partition)
        hosted += 1
        leaders += partition.slot.role == ROLE_LEADER
        offline += partition.slot.state == STATE_OFFLINE
        if per_partition:
            own: Labels = (*labels, ("partition", str(partition.slot.partition)))
            sizes[own].add(partition)
            offsets.append((own, partition.slot))
    yield _gauge("LeaderCount", "Partitions that this broker leads.", leaders)
    yield _gauge("PartitionCount", "Partitions that this broker hosts.", hosted)
    yield _gauge("OfflineReplicaCount", "Partitions in a log directory that is out of use.", offline)
    yield from _traffic(totals)
    yield from _sizes(sizes)
    if per_partition:
        yield from _offsets(offsets)


def _gauge(mbean: str, text: str, value: int) -> MetricFamily:
    return MetricFamily(
        name=f"kafka_server_replicamanager_{mbean.lower()}",
        jmx_name=f"kafka.server:type=ReplicaManager,name={mbean}",
        kind=MetricKind.GAUGE,
        help=text,
        samples=(Sample(labels=(), value=value),),
    )


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
            samples=tuple(
                Sample(labels=labels, value=getattr(topic, field)) for labels, topic in totals.items()
            ),
        )


def _sizes(totals: dict[Labels, _Totals]) -> Iterator[MetricFamily]:
    for mbean, field, text in (
        ("Size", "size_bytes", "Bytes on disk."),
        ("NumLogSegments", "segments", "Segment files."),
    ):
        samples = tuple(
            Sample(labels=labels, value=getattr(topic, field)) for labels, topic in totals.items()
        )
        yield _log_gauge(mbean, text, samples)


def _offsets(slots: list[tuple[Labels, PartitionSlot]]) -> Iterator[MetricFamily]:
    for mbean, field, text in (
        ("LogStartOffset", "log_start", "First offset of the log."),
        ("LogEndOffset", "leo_offset", "Offset of the next record."),
    ):
        samples = tuple(Sample(labels=labels, value=getattr(slot, field)) for labels, slot in slots)
        yield _log_gauge(mbean, text, samples)


def _log_gauge(mbean: str, text: str, samples: tuple[Sample, ...]) -> MetricFamily:
    return MetricFamily(
        name=f"kafka_log_log_{mbean.lower()}",
        jmx_name=f"kafka.log:type=Log,name={mbean}",
        kind=MetricKind.GAUGE,
        help=text,
        samples=samples,
    )
