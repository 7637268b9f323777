"""The rings of a process in its event loop: several writers at one bell, lives that come and go, full rings."""

import os
import random
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from struct import Struct

import multiprocess
import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.shared_memory.descriptor_ring import LARGEST_MESSAGE, RING_BYTES, Doorbell
from kafkad.adapters.shared_memory.process_registry import REGISTRY_BYTES, ProcessKey, ProcessRegistry
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.processes.runtime.rings import Rings, ring_count, ring_number

NUMBER = Struct("<QQ")
WORKER = ProcessKey("worker", 0)
NETWORKS = tuple(ProcessKey("network", index) for index in range(3))
LOST_WAKE_UP_MS = 10_000


class Shared:
    """What the supervisor makes of it: memory for all rings, a bell for each process."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        keys = (WORKER, *NETWORKS)
        self.region = self._region("test-rings", ring_count(len(NETWORKS), 1) * RING_BYTES)
        registry = ProcessRegistry(self._region("test-roster", REGISTRY_BYTES), keys)
        self.doorbells = {key: Doorbell(*registry.sleep_word(key), self._eventfd()) for key in keys}

    def _region(self, name: str, size: int) -> SharedRegion:
        made = SharedRegion(name, size)
        self._stack.callback(made.close)
        return made

    def _eventfd(self) -> int:
        fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stack.callback(os.close, fd)
        return fd

    def rings(self, me: ProcessKey, on_frames: Callable[[ProcessKey, list[bytes]], None]) -> Rings:
        return Rings(me, self.region, self.doorbells, on_frames)

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def shared() -> Iterator[Shared]:
    made = Shared()
    yield made
    made.close()


class End:
    """One process as an object: its rings, and what came in."""

    def __init__(self, shared: Shared, me: ProcessKey) -> None:
        self.got: list[tuple[ProcessKey, bytes]] = []
        self.rings = shared.rings(me, self._on_frames)

    def _on_frames(self, peer: ProcessKey, frames: list[bytes]) -> None:
        self.got += [(peer, frame) for frame in frames]

    def frames(self) -> list[bytes]:
        self.rings.serve()
        return [frame for _, frame in self.got]


def test_each_pair_and_direction_has_a_ring_of_its_own() -> None:
    networks = [ProcessKey("network", index) for index in range(3)]
    workers = [ProcessKey("worker", index) for index in range(8)]
    pairs = [(network, worker) for network in networks for worker in workers]
    numbers = [ring_number(*pair, workers=8, networks=3) for pair in [*pairs, *(pair[::-1] for pair in pairs)]]
    assert sorted(numbers) == list(range(ring_count(3, 8)))


def test_frame_that_no_ring_can_take_is_not_taken(shared: Shared) -> None:
    end = End(shared, WORKER)
    assert not end.rings.send(NETWORKS[0], b"before there is such a process")
    end.rings.open(NETWORKS[0], 1, 1)
    assert end.rings.send(NETWORKS[0], bytes(LARGEST_MESSAGE))
    assert not end.rings.send(NETWORKS[0], bytes(LARGEST_MESSAGE + 1))
    end.rings.close(NETWORKS[0])
    assert not end.rings.send(NETWORKS[0], b"after it")


def test_nothing_of_a_dead_life_reaches_its_successor_in_either_direction(shared: Shared) -> None:
    worker, network = End(shared, WORKER), End(shared, NETWORKS[0])
    worker.rings.open(NETWORKS[0], 1, 1)
    network.rings.open(WORKER, 1, 1)
    network.rings.send(WORKER, b"request of the first life")
    worker.rings.send(NETWORKS[0], b"answer to the first life")
    second = End(shared, NETWORKS[0])
    second.rings.open(WORKER, 2, 1)
    second.rings.send(WORKER, b"request of the second life")
    assert second.frames() == []
    worker.rings.close(NETWORKS[0])
    worker.rings.open(NETWORKS[0], 1, 2)
    worker.rings.send(NETWORKS[0], b"answer to the second life")
    assert worker.frames() == [b"request of the second life"]
    assert second.frames() == [b"answer to the second life"]


def test_nothing_for_a_dead_worker_reaches_its_successor(shared: Shared) -> None:
    network = End(shared, NETWORKS[0])
    network.rings.open(WORKER, 1, 1)
    network.rings.send(WORKER, b"for the first life")
    second = End(shared, WORKER)
    second.rings.open(NETWORKS[0], 2, 1)
    network.rings.send(WORKER, b"for the first life, as its death is not known yet")
    assert second.frames() == []
    network.rings.open(WORKER, 1, 2)
    network.rings.send(WORKER, b"for the second life")
    assert second.frames() == [b"for the second life"]


def test_what_had_no_room_follows_as_soon_as_there_is_some(shared: Shared) -> None:
    """The loop looks again by itself: nobody rings when a ring gets room. It would sleep until the test's timeout."""
    network, worker = End(shared, NETWORKS[0]), End(shared, WORKER)
    network.rings.open(WORKER, 1, 1)
    worker.rings.open(NETWORKS[0], 1, 1)
    loop = EventLoop()
    loop.attach(network.rings)
    frames = [number.to_bytes(2, "big") * 20_000 for number in range(20)]
    for frame in frames:
        network.rings.send(WORKER, frame)
    while len(worker.frames()) < 14:
        loop.run_once(60 * 60 * 1000)
    assert network.rings.flush()
    assert worker.frames() == frames
    loop.close()


def test_pass_that_must_not_wait_does_not_wait_for_room(shared: Shared) -> None:
    network = End(shared, NETWORKS[0])
    network.rings.open(WORKER, 1, 1)
    loop = EventLoop()
    loop.attach(network.rings)
    for _ in range(20):
        network.rings.send(WORKER, bytes(50_000))
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    for _ in range(200):
        loop.run_once(0)
    # A thread that waits gives up its CPU each time, whatever the machine does.
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before < 20
    loop.close()


def network_process(shared: Shared, me: ProcessKey, rounds: int) -> None:
    """Sends numbered messages, sleeps until enough of them came back; more than one bell rings at the worker."""
    random_source = random.Random(me.index)
    back: list[int] = []

    def on_frames(peer: ProcessKey, frames: list[bytes]) -> None:
        for frame in frames:
            index, number = NUMBER.unpack(frame)
            assert index == me.index
            back.append(number)

    rings = shared.rings(me, on_frames)
    rings.open(WORKER, 1, 1)
    loop = EventLoop()
    loop.attach(rings)
    sent = 0
    while len(back) < rounds:
        if sent - len(back) <= random_source.choice((0, 0, 0, 10)):
            burst = min(random_source.choice((1, 1, 1, 30)), rounds - sent)
            for number in range(sent, sent + burst):
                rings.send(WORKER, NUMBER.pack(me.index, number))
            sent += burst
        assert loop.run_once(LOST_WAKE_UP_MS), "answers wait, and nobody rang"
    assert back == list(range(rounds))
    # What was sent is passed on before each wait; there is none after the last pass.
    rings.flush()


def test_no_wake_up_is_lost_when_several_processes_ring_one(shared: Shared) -> None:
    rounds = 60_000
    fork = multiprocess.get_context("fork")
    others = [fork.Process(target=network_process, args=(shared, key, rounds), daemon=True) for key in NETWORKS]
    for process in others:
        process.start()
    answered = 0

    def on_frames(peer: ProcessKey, frames: list[bytes]) -> None:
        nonlocal answered
        for frame in frames:
            rings.send(peer, frame)
            answered += 1

    rings = shared.rings(WORKER, on_frames)
    for key in NETWORKS:
        rings.open(key, 1, 1)
    loop = EventLoop()
    loop.attach(rings)
    while answered < rounds * len(NETWORKS):
        assert loop.run_once(LOST_WAKE_UP_MS), "requests wait, and nobody rang"
    rings.flush()
    for process in others:
        process.join(WITHIN_S)
    assert [process.exitcode for process in others] == [0, 0, 0]
    loop.close()
