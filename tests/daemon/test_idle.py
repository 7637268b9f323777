"""A broker that nobody asks for anything sleeps: no process and no thread of it wakes up to look for work.

Each process beats every two seconds for the supervisor, which looks at that every two and a half; that is all. Real, as
the kernel counts how often each thread sleeps. Beside the broker sleeps a process that does nothing but beat: where the
machine stands still for a while, both have more beats in a window.
"""

import os
import select
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.brokers.daemon import Kafkad
from tests.tools import raw_requests
from tests.tools.raw_requests import RawClient

WINDOW_S = 3.0
WINDOWS = 5
"""What was begun may be finished first: a checkpoint a few seconds after a change, a retention round at the start."""
BEATS = 2
"""At most, in a window. A timer that is longer than a window may fall into it as well, but not into each."""
AT_FIRST = 150
"""For a beat: what was begun is finished, and others take the core meanwhile. An interval of a millisecond would be
thousands.
"""
BEATING = "import threading\nwhile True: threading.Event().wait(2)"


@contextmanager
def beating() -> Iterator[int]:
    """The process that only beats: its id."""
    with subprocess.Popen([sys.executable, "-c", BEATING]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def wake_ups(broker: Kafkad) -> Counter[str]:
    """How often each thread of the broker has gone to sleep so far, of its own accord or not."""
    found: Counter[str] = Counter()
    for process in broker.tree():
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            found[f"{process.title} thread {thread.name}"] = switches(thread)
    return found


def switches(task: Path) -> int:
    lines = (task / "status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "voluntary_ctxt_switches:" in line)


def pass_time(broker: Kafkad) -> None:
    """One window, in which the broker must not end."""
    descriptor = os.pidfd_open(broker.pid)
    try:
        assert not select.select([descriptor], [], [], WINDOW_S)[0], broker.tail()
    finally:
        os.close(descriptor)


def window(broker: Kafkad, beating: int) -> tuple[Counter[str], int]:
    """How often each thread has gone to sleep in the next window (one that is new, in its life), and how many beats
    there were.
    """
    before, beats = wake_ups(broker), switches(Path(f"/proc/{beating}"))
    pass_time(broker)
    found = wake_ups(broker) - before
    return found, max(BEATS, switches(Path(f"/proc/{beating}")) - beats)


def assert_falls_asleep(broker: Kafkad, beating: int) -> None:
    """One window of the next few in which nobody wakes up for more than its beat: whoever polls would in each."""
    seen: list[Counter[str]] = []
    for _ in range(WINDOWS):
        found, beats = window(broker, beating)
        seen.append(found)
        if max(found.values(), default=0) <= beats:
            return
    raise AssertionError(f"these woke up in windows of {WINDOW_S} s: {seen}")


def test_broker_sleeps_without_partitions_and_beside_a_fetch_that_waits() -> None:
    with tempfile.TemporaryDirectory(prefix="kt-") as folder, Kafkad(Path(folder)) as broker, beating() as beats:
        assert_falls_asleep(broker, beats)
        with RawClient(broker.port) as client:
            fill(client)
            client.send(raw_requests.fetch({("t", 0): 1}, max_wait_ms=600_000))
            assert_falls_asleep(broker, beats)


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
    with Kafkad(tmp_path, none) as broker, RawClient(broker.port) as client, beating() as beats_of:
        fill(client)
        # Workers keep quiet for a while about what moved last: the first window shows whether anybody asks in between.
        first, beats = window(broker, beats_of)
        assert max(first.values(), default=0) <= AT_FIRST * beats, first
        assert_falls_asleep(broker, beats_of)


def fill(client: RawClient) -> None:
    client.ask(raw_requests.create_topic("t", partitions=20))
    for partition in range(20):
        (answer,) = raw_requests.read_produced(
            client.ask(raw_requests.produce({("t", partition): raw_requests.batch()}, acks=-1))
        ).values()
        assert answer.error == 0
    assert raw_requests.read_fetched(client.ask(raw_requests.fetch({("t", 0): 0})))["t", 0].records
