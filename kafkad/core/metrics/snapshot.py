"""Turns the counters of all processes and the partition table into metrics.

Blocks are summed, and partitions are added up by topic. Series for each partition are shown only if configured:
thousands of series are expensive to store. Idle ratios are computed from the difference to the previous snapshot.
Series that never counted are omitted, except for metrics without labels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

from kafkad.core.errors import ErrorCode
from kafkad.core.metrics.catalogue import BUSY_NS, COUNTERS, FETCH, FETCH_CONSUMER, FETCH_FOLLOWER
from kafkad.core.metrics.metric import (
    HistogramSample,
    Labels,
    MetricFamily,
    MetricKind,
    MetricRow,
    MetricsSnapshot,
    Sample,
)
from kafkad.core.metrics.partitions import PartitionReading, partition_families
from kafkad.core.metrics.replication import ReplicationRates, dead_fetchers
from kafkad.core.types import FreeSpace


class ProcessReading(NamedTuple):
    """The block of one process; `incarnation` counts from 1."""

    role: str
    number: int
    incarnation: int
    words: Sequence[int]


class GroupLag(NamedTuple):
    """The lag of a group in records: of its worst partition, and in total."""

    group: str
    max: int
    sum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReading:
    """The input of a snapshot. `now_ns` is the monotonic clock, `wall_ms` the wall clock."""

    now_ns: int
    wall_ms: int
    broker_state: int
    processes: Sequence[ProcessReading]
    partitions: Iterable[PartitionReading] = ()
    per_partition: bool = False
    group_lags: Sequence[GroupLag] = ()
    free_space: Mapping[str, FreeSpace] = field(default_factory=dict)
    """By log directory."""
    dead_cleaners: int = 0
    dead_fetchers: int = 0


_IDLE = (
    (
        "network",
        "kafka_network_socketserver_networkprocessoravgidlepercent",
        "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
        "Share of time (0 to 1) that network processes slept, since the metrics were last read.",
    ),
    (
        "worker",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent",
        "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
        "Share of time (0 to 1) that workers slept, since the metrics were last read.",
    ),
)


class SnapshotBuilder:
    """Makes snapshots; keeps the busy times and rates of the last one."""

    def __init__(self, request_names: Mapping[int, str], log_dirs: Sequence[str] = ()) -> None:
        self._log_dirs = log_dirs
        self._request_names = {
            **request_names,
            FETCH_CONSUMER: "FetchConsumer",
            FETCH_FOLLOWER: "FetchFollower",
        }
        self._last_ns: int | None = None
        self._last_busy_ns: dict[str, int] = {}
        self._replication_rates = ReplicationRates()

    def build(self, reading: BrokerReading) -> MetricsSnapshot:
        families = [
            *self._counted(reading),
            *partition_families(reading.partitions, per_partition=reading.per_partition),
            *self._idle(reading),
            *_lags(reading.group_lags),
            *_free_space(reading.free_space),
            _broker_state(reading.broker_state),
            _restarts(reading.processes),
            _dead_cleaners(reading.dead_cleaners),
            *self._fetching(reading),
        ]
        return MetricsSnapshot(taken_ms=reading.wall_ms, families=tuple(_merged(families)))

    def _counted(self, reading: BrokerReading) -> Iterable[MetricFamily]:
        processes = reading.processes
        totals = _totals(processes)
        for name, rows in groupby(COUNTERS, key=lambda row: row.name):
            samples: list[Sample] = []
            histograms: list[HistogramSample] = []
            for row in rows:
                if row.per_process:
                    samples += _per_process(row, processes)
                elif row.is_moment:
                    samples += _elapsed(row, totals, reading.now_ns)
                elif row.is_percent:
                    samples.append(_percent(row, totals))
                elif row.kind is MetricKind.HISTOGRAM:
                    histograms += self._histograms(row, totals)
                else:
                    samples += self._samples(row, totals)
            yield MetricFamily(
                name=name,
                jmx_name=row.jmx_name,
                kind=row.kind,
                help=row.help,
                samples=tuple(samples),
                histograms=tuple(histograms),
                limits=row.limits,
            )

    def _samples(self, row: MetricRow, totals: Sequence[int]) -> Iterable[Sample]:
        if not row.shape:
            yield Sample(labels=row.fixed_labels, value=totals[row.index] * row.scale)
            return
        always = len(self._log_dirs) if row.labels == ("logDirectory",) else 0
        for series in range(row.words):
            count = totals[row.index + series]
            if count or series < always:
                yield Sample(labels=self._labels(row, series), value=count * row.scale)

    def _histograms(self, row: MetricRow, totals: Sequence[int]) -> Iterable[HistogramSample]:
        width = row.words_per_series
        for series in range(row.words // width):
            first = row.index + series * width
            counts = _cumulative(totals[first : first + width - 1])
            if counts[-1]:
                total = totals[first + width - 1] * row.scale
                yield HistogramSample(labels=self._labels(row, series), counts=counts, sum=total)

    def _labels(self, row: MetricRow, series: int) -> Labels:
        values = []
        for label, size in zip(reversed(row.labels), reversed(row.shape), strict=True):
            series, position = divmod(series, size)
            values.append((label, self._label_value(label, position)))
        return tuple(reversed(values))

    def _label_value(self, label: str, position: int) -> str:
        match label:
            case "request":
                return self._request_names.get(position, str(position))
            case "error":
                return _ERROR_NAMES.get(position - 1, str(position - 1))
            case "dir" | "logDirectory" if position < len(self._log_dirs):
                return self._log_dirs[position]
        return str(position)

    def _fetching(self, reading: BrokerReading) -> Iterable[MetricFamily]:
        """Metrics of fetchers; only a broker in a cluster has them."""
        fetchers = {process.number: process.words for process in reading.processes if process.role == "fetcher"}
        if fetchers:
            yield dead_fetchers(reading.dead_fetchers)
            yield from self._replication_rates.families(
                fetchers, [process.words for process in reading.processes], reading.now_ns
            )

    def _idle(self, reading: BrokerReading) -> Iterable[MetricFamily]:
        busy_ns = {_label(process): process.words[BUSY_NS] for process in reading.processes}
        last_ns, last_busy_ns = self._last_ns, self._last_busy_ns
        self._last_ns, self._last_busy_ns = reading.now_ns, busy_ns
        if last_ns is None or reading.now_ns <= last_ns:
            return
        elapsed_ns = reading.now_ns - last_ns
        for role, name, jmx_name, text in _IDLE:
            idle = [
                max(0.0, 1 - (busy_ns[label] - last_busy_ns[label]) / elapsed_ns)
                for process in reading.processes
                if process.role == role and (label := _label(process)) in last_busy_ns
            ]
            if idle:
                samples = (Sample(labels=(), value=sum(idle) / len(idle)),)
                yield MetricFamily(name=name, jmx_name=jmx_name, kind=MetricKind.GAUGE, help=text, samples=samples)


_ERROR_NAMES = {code.value: code.name for code in ErrorCode}


def _merged(families: Iterable[MetricFamily]) -> Iterable[MetricFamily]:
    """Merge families of the same name: Kafka has traffic of all topics and of each topic under one name."""
    by_name: dict[str, MetricFamily] = {}
    for family in families:
        first = by_name.get(family.name)
        if first is not None:
            family = replace(first, samples=first.samples + family.samples)
        by_name[family.name] = family
    return by_name.values()


def _label(process: ProcessReading) -> str:
    return f"{process.role}-{process.number}"


def _totals(processes: Sequence[ProcessReading]) -> list[int]:
    blocks = [list(process.words) for process in processes]
    totals = [sum(words) for words in zip(*blocks, strict=True)] if blocks else [0] * _WORDS
    for row in COUNTERS:
        if row.is_largest:
            totals[row.index] = max((words[row.index] for words in blocks), default=0)
    _add_fetches(totals)
    return totals


def _add_fetches(totals: list[int]) -> None:
    """Add the fetches of consumers and followers up to all fetches."""
    for row in COUNTERS:
        if row.labels[:1] == ("request",):
            width = row.words // row.shape[0]
            for word in range(width):
                counts = (totals[row.index + key * width + word] for key in (FETCH_CONSUMER, FETCH_FOLLOWER))
                totals[row.index + FETCH * width + word] += sum(counts)


_WORDS = COUNTERS[-1].index + COUNTERS[-1].words


def _per_process(row: MetricRow, processes: Sequence[ProcessReading]) -> Iterable[Sample]:
    for process in processes:
        if row.role in ("", process.role):
            labels = (("process", _label(process)),)
            yield Sample(labels=labels, value=process.words[row.index] * row.scale)


def _elapsed(row: MetricRow, totals: Sequence[int], now_ns: int) -> Iterable[Sample]:
    if totals[row.index]:
        yield Sample(labels=row.fixed_labels, value=max(0, now_ns // 1_000_000 - totals[row.index]))


def _percent(row: MetricRow, totals: Sequence[int]) -> Sample:
    part, whole = totals[row.index : row.index + 2]
    # Rounded down, as in Apache Kafka.
    return Sample(labels=row.fixed_labels, value=100 * part // max(1, whole))


def _cumulative(counts: Sequence[int]) -> tuple[int, ...]:
    running = 0
    cumulative = []
    for count in counts:
        running += count
        cumulative.append(running)
    return tuple(cumulative)


def _broker_state(state: int) -> MetricFamily:
    return MetricFamily(
        name="kafka_server_kafkaserver_brokerstate",
        jmx_name="kafka.server:type=KafkaServer,name=BrokerState",
        kind=MetricKind.GAUGE,
        help="0 not running, 1 starting, 2 recovering, 3 running, 6 in controlled shutdown, 7 shutting down.",
        samples=(Sample(labels=(), value=state),),
    )


def _restarts(processes: Sequence[ProcessReading]) -> MetricFamily:
    return MetricFamily(
        name="kafkad_process_restarts",
        jmx_name="",
        kind=MetricKind.COUNTER,
        help="Restarts of a process.",
        samples=tuple(
            Sample(labels=(("process", _label(process)),), value=max(0, process.incarnation - 1))
            for process in processes
        ),
    )


def _dead_cleaners(count: int) -> MetricFamily:
    return MetricFamily(
        name="kafka_log_logcleaner_deadthreadcount",
        jmx_name="kafka.log:type=LogCleaner,name=DeadThreadCount",
        kind=MetricKind.GAUGE,
        help="Cleaner processes that died and are not restarted yet.",
        samples=(Sample(labels=(), value=count),),
    )


def _lags(rows: Sequence[GroupLag]) -> Iterable[MetricFamily]:
    for name, text, values in (
        ("max", "in its worst partition", [row.max for row in rows]),
        ("sum", "in all partitions", [row.sum for row in rows]),
    ):
        yield MetricFamily(
            name=f"kafkad_group_lag_{name}",
            jmx_name="",
            kind=MetricKind.GAUGE,
            help=f"Lag of a group in records {text}, at the previous read of the metrics.",
            samples=tuple(
                Sample(labels=(("group", row.group),), value=value) for row, value in zip(rows, values, strict=True)
            ),
        )


def _free_space(by_directory: Mapping[str, FreeSpace]) -> Iterable[MetricFamily]:
    for name, text, values in (
        ("free", "Free", [space.free_bytes for space in by_directory.values()]),
        ("size", "All", [space.total_bytes for space in by_directory.values()]),
    ):
        yield MetricFamily(
            name=f"kafkad_log_dir_{name}_bytes",
            jmx_name="",
            kind=MetricKind.GAUGE,
            help=f"{text} bytes of the file system of a log directory.",
            samples=tuple(
                Sample(labels=(("log_dir", path),), value=value)
                for path, value in zip(by_directory, values, strict=True)
            ),
        )
