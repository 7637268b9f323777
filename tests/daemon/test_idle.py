"""A broker that nobody asks for anything sleeps: no process and no thread of it wakes up to look for work.

Each process beats every two seconds for the supervisor, which looks at that every two and a half; that is all.
"""

import os
import select
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.brokers.daemon import Kafkad
from tests.tools import raw_requests
from tests.tools.raw_requests import RawClient

WINDOW_S = 3.0
WINDOWS = 5
"""What was begun may be finished first: a checkpoint a few seconds after a change, a retention round at the start."""
AT_MOST = 2
"""The beat. A timer that is longer than a window may fall into it as well, but not into each."""
AT_MOST_AT_FIRST = 300
"""What was begun is finished, and others take the core meanwhile. An interval of a millisecond would be thousands."""


@pytest.fixture
def broker() -> Iterator[Kafkad]:
    with tempfile.TemporaryDirectory(prefix="kt-") as folder, Kafkad(Path(folder)) as running:
        yield running


def wake_ups(broker: Kafkad) -> Counter[str]:
    """How often each thread of the broker has gone to sleep so far, of its own accord or not."""
    found: Counter[str] = Counter()
    for process in broker.tree():
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            lines = (thread / "status").read_text().splitlines()
            switches = sum(int(line.split()[1]) for line in lines if "voluntary_ctxt_switches:" in line)
            found[f"{process.title} thread {thread.name}"] = switches
    return found


def pass_time(broker: Kafkad) -> None:
    """One window, in which the broker must not end."""
    descriptor = os.pidfd_open(broker.pid)
    try:
        assert not select.select([descriptor], [], [], WINDOW_S)[0], broker.tail()
    finally:
        os.close(descriptor)


def window(broker: Kafkad) -> Counter[str]:
    """How often each thread has gone to sleep in the next window; one that is new, in its life."""
    before = wake_ups(broker)
    pass_time(broker)
    return wake_ups(broker) - before


def assert_falls_asleep(broker: Kafkad) -> None:
    """One window of the next few in which nobody wakes up for more than its beat: whoever polls would in each."""
    seen: list[Counter[str]] = []
    for _ in range(WINDOWS):
        seen.append(window(broker))
        if max(seen[-1].values(), default=0) <= AT_MOST:
            return
    raise AssertionError(f"these woke up in windows of {WINDOW_S} s: {seen}")


def test_broker_without_partitions_sleeps(broker: Kafkad) -> None:
    assert_falls_asleep(broker)


def test_broker_with_partitions_and_a_silent_client_sleeps(broker: Kafkad) -> None:
    with RawClient(broker.port) as client:
        fill(client)
        assert_falls_asleep(broker)


def test_broker_whose_intervals_are_none_serves_and_sleeps(tmp_path: Path) -> None:
    none = {
        "connections.max.idle.ms": "-1",
        "log.flush.interval.ms": "1",
        "log.flush.offset.checkpoint.interval.ms": "0",
        "log.flush.scheduler.interval.ms": "0",
        "log.flush.start.offset.checkpoint.interval.ms": "0",
        "log.initial.task.delay.ms": "0",
        "replica.high.watermark.checkpoint.interval.ms": "-1",
    }
    with Kafkad(tmp_path, none) as broker, RawClient(broker.port) as client:
        fill(client)
        # Workers keep quiet for a while about what moved last: the first window shows whether anybody asks in between.
        first = window(broker)
        assert max(first.values(), default=0) <= AT_MOST_AT_FIRST, first
        assert_falls_asleep(broker)


def test_waiting_fetch_wakes_nobody(broker: Kafkad) -> None:
    with RawClient(broker.port) as client:
        fill(client)
        client.send(raw_requests.fetch({("t", 0): 1}, max_wait_ms=60_000))
        assert_falls_asleep(broker)


def fill(client: RawClient) -> None:
    client.ask(raw_requests.create_topic("t", partitions=20))
    for partition in range(20):
        (answer,) = raw_requests.read_produced(
            client.ask(raw_requests.produce({("t", partition): raw_requests.batch()}, acks=-1))
        ).values()
        assert answer.error == 0
    assert raw_requests.read_fetched(client.ask(raw_requests.fetch({("t", 0): 0})))["t", 0].records
