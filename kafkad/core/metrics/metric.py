"""Metrics, snapshots of them, and the reporters that show snapshots.

The rows are in `kafkad.core.metrics.catalogue`; `kafkad.core.metrics.snapshot` turns counters into a snapshot. A
snapshot is plain data: reporters do not access shared memory.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Protocol


class MetricKind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


Labels = tuple[tuple[str, str], ...]
"""Label names with their values, in the order of the row's labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """One metric: its names, and its words in a block if processes count it.

    `name` has no `_total`: the format adds it to counters. `index` is -1 if the snapshot computes it. Labels vary
    fastest at the end: a row with labels (request, version) has all versions of request 0 first. `limits` are a
    histogram's upper bounds; a series has a word for each, one for larger values, and the sum. A value is the word
    times `scale`.
    """

    name: str
    jmx_name: str
    kind: MetricKind
    help: str
    index: int = -1
    labels: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    fixed_labels: Labels = ()
    per_process: bool = False
    role: str = ""
    """With `per_process`: the role of the processes to show; empty for all."""
    is_largest: bool = False
    """The value is the largest word of all processes, not their sum."""
    is_moment: bool = False
    """Words are milliseconds of the monotonic clock, 0 for never; the value is the time since."""
    is_percent: bool = False
    """Two words, a part and the whole; the value is the percentage over all processes."""
    scale: float = 1.0
    limits: tuple[float, ...] = ()

    @property
    def words_per_series(self) -> int:
        if self.is_percent:
            return 2
        return len(self.limits) + 2 if self.limits else 1

    @property
    def words(self) -> int:
        return prod(self.shape) * self.words_per_series


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The current value of one series."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramSample:
    """The distribution of one series: counts up to each limit (cumulative, the last for +Inf) and the sum."""

    labels: Labels
    counts: tuple[int, ...]
    sum: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """All series of one metric."""

    name: str
    jmx_name: str
    kind: MetricKind
    help: str
    samples: tuple[Sample, ...] = ()
    histograms: tuple[HistogramSample, ...] = ()
    limits: tuple[float, ...] = ()


def server_gauge(component: str, mbean: str, text: str, value: float) -> MetricFamily:
    """One value, of Apache Kafka's `kafka.server:type=component,name=mbean`."""
    return MetricFamily(
        name=f"kafka_server_{component.lower()}_{mbean.lower()}",
        jmx_name=f"kafka.server:type={component},name={mbean}",
        kind=MetricKind.GAUGE,
        help=text,
        samples=(Sample(labels=(), value=value),),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """Every metric of the broker at one moment; `taken_ms` is the wall clock."""

    taken_ms: int
    families: tuple[MetricFamily, ...]

    def value(self, name: str, **labels: str) -> float:
        """The value of one series of a counter or gauge; raises KeyError."""
        requested = set(labels.items())
        for family in self.families:
            if family.name == name:
                for sample in family.samples:
                    if set(sample.labels) == requested:
                        return sample.value
        raise KeyError(f"no series {name} with labels {labels}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The response to an HTTP client."""

    content_type: str
    body: bytes
    status: int = 200


class ReporterHost(Protocol):
    """Services of the reporter process for its reporters; safe to call from a reporter's own threads."""

    def snapshot(self) -> MetricsSnapshot:
        """The current metrics."""

    def add_page(self, path: str, render: Callable[[], Page]) -> None:
        """Serve GET `path` on `kafkad.metrics.listener` with the result of `render`, called for each request."""


class MetricsReporter(Protocol):
    """A way to show metrics, enabled by its name in `kafkad.metrics.reporters`.

    All calls are made in the reporter process, one at a time, none of them on the data path.
    """

    is_polled: bool
    """Whether `report` is called every `kafka.metrics.polling.interval.secs`.

    False for reporters that serve requests, so that an idle broker stays idle.
    """

    @property
    def name(self) -> str: ...

    def start(self, settings: Mapping[str, str], host: ReporterHost) -> None:
        """Called once; `settings` are the options as text."""

    def report(self, snapshot: MetricsSnapshot) -> None:
        """Show `snapshot`; return within about a second, as the other reporters wait."""

    def stop(self) -> None:
        """The broker stops; called once if `start` returned."""
