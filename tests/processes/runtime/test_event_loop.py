"""The event loop: nothing is missed at ZeroMQ's edges, and nothing wakes it for nothing."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.links.messaging import Link
from kafkad.processes.runtime.event_loop import EventLoop


@pytest.fixture
def links() -> Iterator[tuple[Link, Link]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with tempfile.TemporaryDirectory(prefix="kt-") as folder:
        endpoint = f"ipc://{Path(folder)}/x"
        yield Link(context, endpoint, bind=True), Link(context, endpoint, bind=False)
        context.destroy(linger=0)


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    made = EventLoop()
    yield made
    made.close()


def run_until(loop: EventLoop, frames: list[bytes], count: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    while len(frames) < count:
        assert time.monotonic() < deadline, f"only {len(frames)} of {count} messages"
        loop.run_once(1000)


def test_readable_descriptor_is_called_back(loop: EventLoop) -> None:
    read_end, write_end = os.pipe()
    got: list[bytes] = []
    loop.watch(read_end, lambda events: got.append(os.read(read_end, 10)))
    os.write(write_end, b"x")
    assert loop.run_once(1000) == 1
    assert got == [b"x"]
    loop.unwatch(read_end)
    os.write(write_end, b"y")
    assert loop.run_once(0) == 0
    os.close(read_end)
    os.close(write_end)


def test_a_pass_handles_some_of_very_many_ready_descriptors_and_the_next_ones_the_others(
    loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkad.processes.runtime.event_loop.MAX_EVENTS_PER_PASS", 4)
    got: list[int] = []
    pipes = [os.pipe() for _ in range(10)]
    for number, (read_end, write_end) in enumerate(pipes):
        loop.watch(read_end, lambda _events, number=number: got.append(number))  # type: ignore[misc]
        os.write(write_end, b"x")
    assert (loop.run_once(0), loop.is_crowded) == (4, True)
    loop.run_once(0)
    loop.run_once(0)
    # They are always ready, and none comes twice before all have come.
    assert sorted(got[:10]) == list(range(10))
    for read_end, write_end in pipes:
        loop.unwatch(read_end)
        os.close(read_end)
        os.close(write_end)


def test_frames_reach_the_callback_in_order(loop: EventLoop, links: tuple[Link, Link]) -> None:
    here, there = links
    got: list[bytes] = []
    loop.watch_link(here, got.extend)
    loop.watch_link(there, lambda frames: None)
    for number in range(2500):
        there.send(b"%d" % number)
    run_until(loop, got, 2500)
    assert got == [b"%d" % number for number in range(2500)]


def test_message_is_not_missed_when_a_callback_sends(loop: EventLoop, links: tuple[Link, Link]) -> None:
    """Each answer may swallow the edge of the next question; a loop that trusts the edge hangs here."""
    here, there = links
    asked: list[bytes] = []
    answered: list[bytes] = []

    def answer(frames: list[bytes]) -> None:
        for frame in frames:
            asked.append(frame)
            here.send(b"answer to " + frame)

    def ask_again(frames: list[bytes]) -> None:
        answered.extend(frames)
        there.send(b"%d" % len(answered))

    loop.watch_link(here, answer)
    loop.watch_link(there, ask_again)
    there.send(b"0")
    run_until(loop, answered, 500)
    assert asked[:500] == [b"%d" % number for number in range(500)]


def test_what_zeromq_did_not_take_is_sent_on_by_the_loop(loop: EventLoop, links: tuple[Link, Link]) -> None:
    here, there = links
    got: list[bytes] = []
    here.send(b"before anybody was connected")
    loop.watch_link(here, lambda frames: None)
    loop.watch_link(there, got.extend)
    run_until(loop, got, 1)
    assert here.backlog == 0


def test_idle_loop_sleeps_until_its_deadline(loop: EventLoop, links: tuple[Link, Link]) -> None:
    here, there = links
    got: list[bytes] = []
    loop.watch_link(here, got.extend)
    there.send(b"x")
    run_until(loop, got, 1)
    loop.run_once(0)
    started = time.monotonic()
    assert loop.run_once(50) == 0
    assert time.monotonic() - started >= 0.045


def test_link_that_a_callback_closed_is_not_served(loop: EventLoop, links: tuple[Link, Link]) -> None:
    here, there = links
    got: list[bytes] = []
    read_end, write_end = os.pipe()

    def close(events: int) -> None:
        loop.unwatch(read_end)
        loop.unwatch_link(here)
        here.close()

    there.send(b"x")
    loop.watch_link(here, got.extend)
    loop.watch(read_end, close)
    os.write(write_end, b"x")
    loop.run_once(1000)
    loop.run_once(0)
    os.close(read_end)
    os.close(write_end)
    assert got == []


def test_callbacks_run_awake_and_waits_asleep() -> None:
    order: list[str] = []
    loop = EventLoop(
        lambda fd, events: order.append("other"),
        falls_asleep=lambda: order.append("asleep"),
        wakes_up=lambda: order.append("awake"),
    )
    read_end, write_end = os.pipe()
    registered, other_end = os.pipe()
    loop.watch(read_end, lambda events: order.append("callback"))
    loop.epoll.register(registered, 1)
    os.write(write_end, b"x")
    loop.run_once(1000)
    loop.unwatch(read_end)
    os.write(other_end, b"x")
    loop.run_once(1000)
    assert order == ["asleep", "awake", "callback", "asleep", "awake", "other"]
    loop.close()
    for descriptor in (read_end, write_end, registered, other_end):
        os.close(descriptor)
