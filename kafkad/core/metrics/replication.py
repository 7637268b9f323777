"""Metrics of followers: their lag, and the rates between brokers.

Rates are computed from the difference to the previous snapshot, so the first snapshot has none.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from kafkad.core.metrics.catalogue import (
    FETCHER_LEADERS,
    FETCHER_REQUESTS,
    THROTTLED_FOLLOWER_BYTES,
    THROTTLED_LEADER_BYTES,
)
from kafkad.core.metrics.metric import Labels, MetricFamily, MetricKind, Sample, server_gauge

_manager_gauge = partial(server_gauge, "ReplicaFetcherManager")
_THROTTLED = (("LeaderReplication", THROTTLED_LEADER_BYTES), ("FollowerReplication", THROTTLED_FOLLOWER_BYTES))


def lag_families(lags: Sequence[tuple[Labels, int]], *, per_partition: bool) -> Iterator[MetricFamily]:
    """The lags of all partitions that this broker follows."""
    largest = max((lag for _, lag in lags), default=0)
    yield _manager_gauge("MaxLag", "Largest lag of a replica behind its leader, in records.", largest)
    if per_partition:
        yield MetricFamily(
            name="kafka_server_fetcherlagmetrics_consumerlag",
            jmx_name="kafka.server:type=FetcherLagMetrics,name=ConsumerLag",
            kind=MetricKind.GAUGE,
            help="Lag of a replica behind its leader, in records.",
            samples=tuple(Sample(labels=labels, value=lag) for labels, lag in lags),
        )


def dead_fetchers(count: int) -> MetricFamily:
    return _manager_gauge("DeadThreadCount", "Fetcher processes that died and are not restarted yet.", count)


class ReplicationRates:
    """The rates since the last snapshot, whose counts are kept."""

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._last_requests: dict[int, int] = {}
        self._last_bytes: dict[int, int] = {}

    def families(
        self, fetchers: Mapping[int, Sequence[int]], blocks: Sequence[Sequence[int]], now_ns: int
    ) -> Iterator[MetricFamily]:
        """`fetchers` has the words of the fetcher processes by number, `blocks` the words of all processes."""
        requests = {number: words[FETCHER_REQUESTS] for number, words in fetchers.items()}
        moved = {index: sum(words[index] for words in blocks) for _, index in _THROTTLED}
        last_ns, last_requests, last_bytes = self._last_ns, self._last_requests, self._last_bytes
        self._last_ns, self._last_requests, self._last_bytes = now_ns, requests, moved
        if last_ns is None or now_ns <= last_ns:
            return
        seconds = (now_ns - last_ns) / 1e9
        rates = [
            max(0, requests[number] - last_requests.get(number, 0)) / seconds
            for number, words in fetchers.items()
            if words[FETCHER_LEADERS]
        ]
        text = "Fetch requests per second of the fetcher process with the fewest."
        yield _manager_gauge("MinFetchRate", text, min(rates, default=0))
        for quota, index in _THROTTLED:
            yield MetricFamily(
                name=f"kafka_server_{quota.lower()}_byte_rate",
                jmx_name=f"kafka.server:type={quota},name=byte-rate",
                kind=MetricKind.GAUGE,
                help="Bytes per second of throttled replicas since the previous read of the metrics.",
                samples=(Sample(labels=(), value=max(0, moved[index] - last_bytes.get(index, 0)) / seconds),),
            )
