"""The raw rows: the performance of the broker with a client of negligible cost."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench import latency
from bench.admin import drop_topics, make_topics
from bench.brokers.broker import RunningBroker
from bench.figures import Figure, cost, cpu_per_gigabyte, cpu_per_request, rate
from bench.host import cpu_of_tree, touch_memory
from bench.load import Lane, Outcome, run
from bench.replies import ErrorReply, check_fetch, check_produce
from bench.requests import fetch, produce, record_batch
from bench.scale import Scale

_IN_FLIGHT = 5
_FETCH_MAX = 1 << 20
_BATCH_BYTES = 16_384


@contextmanager
def topic(broker: RunningBroker, name: str, partitions: int) -> Iterator[str]:
    """A topic for the duration of a row."""
    make_topics(broker.port, {name: partitions})
    yield name
    drop_topics(broker.port, broker.log_dir, {name: partitions})


def bulk(
    broker: RunningBroker, scale: Scale, row: str, *, partitions: int, batch_bytes: int, record_size: int
) -> list[Figure]:
    """Produce requests of one batch for each partition, five in flight on one connection."""
    records = batch_bytes // (record_size + 10)
    batch = record_batch(records, record_size)
    payload = len(batch) * partitions
    requests = scale.bulk_bytes // payload
    with topic(broker, "bulk", partitions) as name:
        request = produce(name, dict.fromkeys(range(partitions), batch))
        _produce(broker, request, total=int(requests * scale.warm_up))
        touch_memory(scale.scratch_gigabytes)
        before = cpu_of_tree(broker.pid)
        outcome = _produce(broker, request, total=requests)
        used = cpu_of_tree(broker.pid) - before
    moved = payload * requests
    return [
        rate(row, "throughput", moved / outcome.seconds / 1e6, "MB/s"),
        rate(row, "records", records * partitions * requests / outcome.seconds / 1e6, "million/s"),
        *cpu_per_gigabyte(row, used, moved),
        cost(row, "request p50", outcome.latency_ms(0.5), "ms"),
        cost(row, "request p99", outcome.latency_ms(0.99), "ms"),
    ]


def _produce(broker: RunningBroker, request: bytes, *, total: int, connections: int = 1) -> Outcome:
    lanes = [
        Lane(broker.port, [request], total=total // connections, in_flight=_IN_FLIGHT, check=check_produce)
        for _ in range(connections)
    ]
    return run(lanes)


def tiny(broker: RunningBroker, scale: Scale, row: str, *, connections: int) -> list[Figure]:
    """Ten records of 100 bytes a request, five requests in flight on each connection."""
    with topic(broker, "tiny", 1) as name:
        request = produce(name, {0: record_batch(10, 100)})
        _produce(broker, request, total=int(scale.tiny_requests * scale.warm_up), connections=connections)
        touch_memory(scale.scratch_gigabytes)
        before = cpu_of_tree(broker.pid)
        outcome = _produce(broker, request, total=scale.tiny_requests, connections=connections)
        used = cpu_of_tree(broker.pid) - before
    return [
        rate(row, "requests", outcome.requests / outcome.seconds, "1/s"),
        *cpu_per_request(row, used, outcome.requests),
        cost(row, "request p50", outcome.latency_ms(0.5), "ms"),
        cost(row, "request p99", outcome.latency_ms(0.99), "ms"),
    ]


def page_cache_fetch(broker: RunningBroker, scale: Scale, row: str, *, connections: int) -> list[Figure]:
    """Fetches of 1 MB each of a log that was just written; each connection reads one partition."""
    batch = record_batch(_BATCH_BYTES // 1_034, 1_024)
    with topic(broker, "fetched", connections) as name:
        written = scale.fetch_log_bytes // (len(batch) * connections)
        request = produce(name, dict.fromkeys(range(connections), batch))
        _produce(broker, request, total=written)
        requests = _fetch_requests(name, connections, written, len(batch))
        _fetch(broker, requests, int(scale.fetch_bytes_per_connection * scale.warm_up))
        touch_memory(scale.scratch_gigabytes)
        before = cpu_of_tree(broker.pid)
        outcome = _fetch(broker, requests, scale.fetch_bytes_per_connection)
        used = cpu_of_tree(broker.pid) - before
    return [
        rate(row, "throughput", outcome.received_bytes / outcome.seconds / 1e6, "MB/s"),
        *cpu_per_gigabyte(row, used, outcome.received_bytes),
        cost(row, "request p99", outcome.latency_ms(0.99), "ms"),
    ]


def _fetch_requests(name: str, partitions: int, batches: int, batch_size: int) -> Mapping[int, list[bytes]]:
    records = _BATCH_BYTES // 1_034
    step = _FETCH_MAX // batch_size * records
    last = (batches - _FETCH_MAX // batch_size - 1) * records
    return {
        partition: [fetch(name, partition, at, max_bytes=_FETCH_MAX) for at in range(0, last, step)]
        for partition in range(partitions)
    }


def _fetch(broker: RunningBroker, by_partition: Mapping[int, list[bytes]], bytes_each: int) -> Outcome:
    lanes = [
        Lane(broker.port, requests, total=bytes_each // _FETCH_MAX, in_flight=1, check=_full_fetch)
        for requests in by_partition.values()
    ]
    return run(lanes)


def _full_fetch(frame: memoryview) -> None:
    fetched = check_fetch(frame)
    if fetched.size < _FETCH_MAX * 0.9:
        raise ErrorReply(f"a fetch of {_FETCH_MAX} bytes returned only {fetched.size}")


def end_to_end(broker: RunningBroker, scale: Scale, row: str) -> list[Figure]:
    """200 messages a second with a consumer that always waits at the log end."""
    with topic(broker, "paced", 1) as name:
        warm = int(scale.latency_messages * scale.warm_up)
        latency.measure(broker.port, name, messages=warm, per_second=200, start_offset=0)
        touch_memory(scale.scratch_gigabytes)
        before = cpu_of_tree(broker.pid)
        seen = latency.measure(broker.port, name, messages=scale.latency_messages, per_second=200, start_offset=warm)
        used = cpu_of_tree(broker.pid) - before
    return [
        cost(row, "p50", seen.quantile(0.5), "ms"),
        cost(row, "p99", seen.quantile(0.99), "ms"),
        cost(row, "p99.9", seen.quantile(0.999), "ms"),
        cost(row, "broker CPU", used.total / scale.latency_messages * 1e6, "µs/message"),
    ]
