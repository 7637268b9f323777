"""Rows for the lifecycle of a broker: start, idle state, and 10,000 partitions."""

import time
from collections.abc import Callable
from pathlib import Path

from bench.admin import make_topics, wait_until_served
from bench.brokers.broker import RunningBroker
from bench.connection import Connection
from bench.figures import Figure, cost
from bench.host import idle_cpu_percent, open_files, pss_megabytes
from bench.replies import ErrorReply, check_produce, leaders
from bench.requests import create_topics, metadata, produce, record_batch
from bench.scale import Scale

_START_TIMEOUT_S = 120.0
_SETTLE_S = 5.0
_METADATA_REQUESTS = 30
_WRITTEN_AT_ONCE = 50
"""Partitions in one Produce request."""


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def start_up(make: Callable[[], RunningBroker], scale: Scale, row: str) -> list[Figure]:
    """From the start of the process in an empty folder to the first successful produce to a new topic."""
    seconds = []
    for _ in range(scale.starts):
        broker = make()
        broker.prepare()
        started = time.perf_counter()
        broker.start(wait=False)
        try:
            _produce_until_accepted(broker.port, started + _START_TIMEOUT_S)
            seconds.append(time.perf_counter() - started)
        finally:
            broker.kill()
    return [cost(row, "median", median(seconds), "s"), cost(row, "slowest", max(seconds), "s")]


def _produce_until_accepted(port: int, deadline: float) -> None:
    request = produce("first", {0: record_batch(1, 100)})
    create = create_topics({"first": 1}, {})
    while time.perf_counter() < deadline:
        try:
            with Connection(port) as connection:
                connection.request(create)
                check_produce(connection.request(request))
                return
        except (OSError, ErrorReply):
            time.sleep(0.002)
    raise TimeoutError("no produce was accepted")


def at_rest(broker: RunningBroker, scale: Scale, row: str) -> list[Figure]:
    """Memory and CPU of a new broker without clients."""
    time.sleep(_SETTLE_S)
    return [
        cost(row, "memory (PSS)", pss_megabytes(broker.pid), "MB"),
        cost(row, "idle CPU", idle_cpu_percent(broker.pid, scale.idle_seconds), "% of a core"),
    ]


def after_load(broker: RunningBroker, scale: Scale, row: str) -> list[Figure]:
    """Memory after the rows with load."""
    return [cost(row, "memory (PSS)", pss_megabytes(broker.pid), "MB")]


def many_partitions(make: Callable[[], RunningBroker], scale: Scale, row: str) -> list[Figure]:
    """10,000 partitions in ten topics: creation, Metadata, idle state and restart."""
    topics = {f"many-{index}": scale.partitions // 10 for index in range(10)}
    broker = make()
    with broker:
        created = make_topics(broker.port, topics)
        milliseconds, size = _metadata_time(broker.port, topics)
        time.sleep(_SETTLE_S)
        figures = [
            cost(row, "create until served", created, "s"),
            cost(row, "Metadata of all, median", milliseconds, "ms"),
            cost(row, "Metadata size", size / 1e3, "kB"),
            cost(row, "idle CPU", idle_cpu_percent(broker.pid, scale.idle_seconds), "% of a core"),
            cost(row, "memory (PSS)", pss_megabytes(broker.pid), "MB"),
            cost(row, "open files", open_files(broker.pid), ""),
        ]
        started = time.perf_counter()
        broker.stop()
        stopped = time.perf_counter()
        broker.start()
        wait_until_served(broker.port, topics)
        served = time.perf_counter()
    figures.append(cost(row, "clean stop", stopped - started, "s"))
    figures.append(cost(row, "start until all served", served - stopped, "s"))
    return figures


def after_a_crash(make: Callable[[], RunningBroker], scale: Scale, row: str) -> list[Figure]:
    """The start after kill -9 of a broker with 10,000 partitions that all have records."""
    topics = {f"many-{index}": scale.partitions // 10 for index in range(10)}
    broker = make()
    with broker:
        make_topics(broker.port, topics)
        written = _write_to_all(broker.port, topics)
        broker.kill()
        killed = time.perf_counter()
        broker.start(wait=False)
        first = _first_reply(broker.port, next(iter(topics)), killed + _START_TIMEOUT_S)
        wait_until_served(broker.port, topics)
        served = time.perf_counter()
    return [
        cost(row, "one batch to each", written, "s"),
        cost(row, "start until the first metadata", first - killed, "s"),
        cost(row, "start until all served", served - killed, "s"),
    ]


def _write_to_all(port: int, topics: dict[str, int]) -> float:
    """Seconds for a batch of 10 KB in each partition."""
    records, started = record_batch(10, 1_000), time.perf_counter()
    with Connection(port) as connection:
        for name, partitions in topics.items():
            for first in range(0, partitions, _WRITTEN_AT_ONCE):
                some = range(first, min(first + _WRITTEN_AT_ONCE, partitions))
                check_produce(connection.request(produce(name, dict.fromkeys(some, records))))
    return time.perf_counter() - started


def _first_reply(port: int, topic: str, deadline: float) -> float:
    """The time of the first reply of the broker, before it has loaded all partitions."""
    while time.perf_counter() < deadline:
        try:
            with Connection(port) as connection:
                connection.request(metadata([topic]))
                return time.perf_counter()
        except OSError:
            time.sleep(0.01)
    raise TimeoutError("the broker does not respond after its start")


def _metadata_time(port: int, topics: dict[str, int]) -> tuple[float, int]:
    milliseconds, reply = [], b""
    with Connection(port) as connection:
        for _ in range(_METADATA_REQUESTS):
            started = time.perf_counter()
            reply = connection.request(metadata())
            milliseconds.append((time.perf_counter() - started) * 1_000)
    served = leaders(reply)
    missing = {name for name, count in topics.items() if served.get(name) != count}
    if missing:
        raise ErrorReply(f"Metadata lacks leaders in {sorted(missing)}")
    return median(milliseconds), len(reply)


def fresh_folder(parent: Path) -> Callable[[], Path]:
    """Returns a new folder for each call, so that every broker starts without data."""
    count = iter(range(1_000_000))
    return lambda: parent / f"broker-{next(count)}"
