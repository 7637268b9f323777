"""What is a metric here, and what does a reporter get?

The rows of the catalogue are `kafkad.core.metrics.catalogue`'s, turning counters into a snapshot is
`kafkad.core.metrics.snapshot`'s. A snapshot is plain data: a reporter never touches shared memory.
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
    """One metric: its names, and for those that processes count, where in a block its words are.

    `name` has no `_total`: the format adds it to counters. `index` is -1 if the snapshot computes it.
    Labels vary fastest at the end: a row with labels (request, version) has all versions of request 0 first.
    `limits` are a histogram's upper bounds; a series has a word for each, one for what is above, and the sum.
    A value is the word times `scale`.
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
    scale: float = 1.0
    limits: tuple[float, ...] = ()

    @property
    def words_per_series(self) -> int:
        return len(self.limits) + 2 if self.limits else 1

    @property
    def words(self) -> int:
        return prod(self.shape) * self.words_per_series


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One series' value now."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramSample:
    """One series' distribution: counts up to each limit (cumulative, the last for +Inf) and the sum."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """Every metric of the broker at one moment; `taken_ms` is the wall clock."""

    taken_ms: int
    families: tuple[MetricFamily, ...]

    def value(self, name: str, **labels: str) -> float:
        """The value of one series of a counter or gauge; raises KeyError."""
        wanted = set(labels.items())
        for family in self.families:
            if family.name == name:
                for sample in family.samples:
                    if set(sample.labels) == wanted:
                        return sample.value
        raise KeyError(f"no series {name} with labels {labels}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What an HTTP client is answered."""

    content_type: str
    body: bytes
    status: int = 200


class ReporterHost(Protocol):
    """What the reporter process does for its reporters; safe to call from a reporter's own threads."""

    def snapshot(self) -> MetricsSnapshot:
        """The metrics as they are now."""

    def add_page(self, path: str, render: Callable[[], Page]) -> None:
        """Answer GET `path` on `kafkad.metrics.listener` with what `render` returns, called per request."""


class MetricsReporter(Protocol):
    """A way to show metrics, switched on by naming it in `kafkad.metrics.reporters`.

    All calls come from the reporter process, one after the other, none of them on the data path.
    """

    is_polled: bool
    """Whether `report` is to be called every `kafka.metrics.polling.interval.secs`; False for those that are
    asked themselves, so that an idle broker stays idle."""

    @property
    def name(self) -> str: ...

    def start(self, settings: Mapping[str, str], host: ReporterHost) -> None:
        """Called once; `settings` are the options as written in the configuration."""

    def report(self, snapshot: MetricsSnapshot) -> None:
        """Show `snapshot`; within a second or so, as the other reporters wait."""

    def stop(self) -> None:
        """The broker stops; called once if `start` returned."""
