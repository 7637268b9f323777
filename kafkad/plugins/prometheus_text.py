"""A snapshot in Prometheus' text format, with prometheus-client.

Only `prometheus.py` may import this module, for the first request.
"""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kafkad.api import BrokerInfo, MetricFamily, MetricKind, MetricsSnapshot


def exposition(snapshot: MetricsSnapshot, info: BrokerInfo | None) -> bytes:
    """All metrics, and `kafkad_broker_info` if `info` is given."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(snapshot, info))
    return generate_latest(registry)


class _Snapshot(Collector):
    def __init__(self, snapshot: MetricsSnapshot, info: BrokerInfo | None) -> None:
        self._snapshot = snapshot
        self._info = info

    def collect(self) -> Iterable[Metric]:
        yield from map(_metric, self._snapshot.families)
        if self._info is not None:
            metric = GaugeMetricFamily("kafkad_broker_info", "Which broker this is; always 1.")
            labels = {
                "version": self._info.version,
                "broker_id": str(self._info.broker_id),
                "cluster_id": self._info.cluster_id,
            }
            metric.add_sample(metric.name, labels, 1)
            yield metric

    def describe(self) -> Iterable[Metric]:
        return []


def _metric(family: MetricFamily) -> Metric:
    text = f"{family.help} ({family.jmx_name})" if family.jmx_name else family.help
    metric: Metric
    match family.kind:
        case MetricKind.COUNTER:
            metric = CounterMetricFamily(family.name, text)
            for sample in family.samples:
                metric.add_sample(f"{metric.name}_total", dict(sample.labels), sample.value)
        case MetricKind.GAUGE:
            metric = GaugeMetricFamily(family.name, text)
            for sample in family.samples:
                metric.add_sample(metric.name, dict(sample.labels), sample.value)
        case MetricKind.HISTOGRAM:
            metric = HistogramMetricFamily(family.name, text)
            _add_histograms(metric, family)
    return metric


def _add_histograms(metric: Metric, family: MetricFamily) -> None:
    limits = [*map(str, family.limits), "+Inf"]
    for histogram in family.histograms:
        labels = dict(histogram.labels)
        for limit, count in zip(limits, histogram.counts, strict=True):
            metric.add_sample(f"{family.name}_bucket", {**labels, "le": limit}, count)
        metric.add_sample(f"{family.name}_count", labels, histogram.counts[-1])
        metric.add_sample(f"{family.name}_sum", labels, histogram.sum)
