"""What the broker's processes touch the world with, replaced for the time of a run.

Each stand-in is the real adapter with joints in it where others can see what is done, or, where the real one waits
(epoll, ZeroMQ, threads, clocks), one that belongs to the scheduler.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from mmap import mmap
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

from kafkad.adapters.files import atomic_write, file_cache, segment_files, write_behind
from kafkad.adapters.files.log_directory import write_partition_metadata
from kafkad.adapters.links import messaging
from kafkad.adapters.operating_system import clocks
from kafkad.adapters.shared_memory.descriptor_ring import RingWriter
from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.adapters.stores import store_copy
from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.processes.cleaner import rewriting
from kafkad.processes.controller.store import copies, embedded_session
from kafkad.processes.network.connections import connection, graceful_close
from kafkad.processes.network.logs import cached_reads
from kafkad.processes.runtime import peers, rings
from kafkad.processes.supervisor import resources
from kafkad.processes.worker import closing, loading, partitions
from tests.one_thread import Patch as Patch
from tests.one_thread import ProcessPorts
from tests.simulation.disk import SimulatedDisk
from tests.simulation.epoll import SimulatedPoll
from tests.simulation.links import Exchange, SimulatedLink
from tests.simulation.scheduler import EPOCH_NS, FOREVER, MS, NS, Scheduler
from tests.simulation.store_thread import STORE_THREAD, Event, StoreThread


class VirtualTime:
    """The `time` of the broker's modules."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def monotonic_ns(self) -> int:
        return self._scheduler.now_ns

    def time_ns(self) -> int:
        return EPOCH_NS + self._scheduler.now_ns

    def monotonic(self) -> float:
        """Who asks is in the middle of long work, of which each step takes its time."""
        self._scheduler.now_ns += self._scheduler.random.choice((0, 200_000, 3_000_000))
        return self._scheduler.now_ns / NS


SYNCS = "sync"
"""The name of the threads that sync logs."""


class Threads:
    """A `ThreadPoolExecutor` of one incarnation: what it was given is done when the scheduler comes to it."""

    def __init__(self, scheduler: Scheduler, max_workers: int, slowest_ms: int = 0) -> None:
        self._scheduler = scheduler
        self._max_workers = max_workers
        self._slowest_ms = slowest_ms
        """How long a job may last."""
        self.deadline_ns = FOREVER
        self._jobs: list[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = []
        scheduler.add(self)

    def submit(self, work: Callable[..., Any], *args: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self._jobs.append((future, work, args))
        if len(self._jobs) == 1:
            self._begin_next()
        self._scheduler.stir(self)
        return future

    def _begin_next(self) -> None:
        self.deadline_ns = FOREVER
        if self._slowest_ms and self._jobs:
            self.deadline_ns = self._scheduler.now_ns + MS * self._scheduler.random.randrange(self._slowest_ms)

    def is_ready(self) -> bool:
        return bool(self._jobs) and (not self._slowest_ms or self._scheduler.now_ns >= self.deadline_ns)

    def act(self) -> None:
        """One job. Several threads may be ready in any order, one keeps it."""
        at = self._scheduler.random.randrange(min(self._max_workers, len(self._jobs)))
        future, work, args = self._jobs.pop(at)
        self._begin_next()
        try:
            result = work(*args)
        except Exception as error:  # noqa: BLE001 - as a thread pool does
            future.set_exception(error)
        else:
            future.set_result(result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while self._jobs and not cancel_futures:
            self.act()
        self.forget()

    def forget(self) -> None:
        self._jobs.clear()
        self._scheduler.remove(self)


class AtOnce:
    """`HelperThreads` for a process that only waits for its threads: they may as well be this one."""

    def __init__(self, most: int, name: str) -> None:
        """Takes what the real one takes."""

    def close(self, *, cancel: bool = False) -> None:
        """All is done already."""

    def submit(self, work: Callable[..., Any], *args: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args))
        except Exception as error:  # noqa: BLE001 - as a thread pool does
            future.set_exception(error)
        return future


class _SlotMemory:
    """The memory of the partition table, in which a writer may be stopped half-way, and a reader before it looks."""

    def __init__(self, memory: Any, joint: Callable[[str], object]) -> None:
        self._memory = memory
        self._joint = joint

    def __getitem__(self, where: slice) -> bytes:
        self._joint("looks at a slot")
        found: bytes = self._memory[where]
        return found

    def __setitem__(self, where: slice, value: bytes) -> None:
        self._memory[where] = value
        self._joint("has written half a slot")


class Ports(ProcessPorts):
    """All stand-ins of one run."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.disk = SimulatedDisk(scheduler)
        self.exchange = Exchange(scheduler, self.descriptors)
        self.published: Callable[[int], None] = lambda slot: None
        """Told of every slot that was written."""
        self.slowest_sync_ms = 0
        """How long a disk may take to sync a log."""
        self._random = Random(scheduler.random.random())
        self._real_rewrite_steps = rewriting.rewrite_steps

    def _threads(self, max_workers: int, thread_name_prefix: str) -> Threads:
        if thread_name_prefix == STORE_THREAD:
            owner = self.scheduler.current
            assert owner is not None, "only a process has threads"
            thread = StoreThread(self.scheduler, owner.process)
            return self.own(thread, thread.forget)  # type: ignore[return-value]
        threads = Threads(self.scheduler, max_workers, self.slowest_sync_ms if thread_name_prefix == SYNCS else 0)
        return self.own(threads, threads.forget)

    def _ring_writer(self) -> type[RingWriter]:
        joint = self.scheduler.joint

        class JointedRingWriter(RingWriter):
            def send(self, message: bytes, *, wakes: bool = True) -> None:
                joint("sends by ring")
                super().send(message, wakes=wakes)
                joint("has sent by ring")

        return JointedRingWriter

    def _partition_table(self) -> type[PartitionTable]:
        ports = self

        class JointedTable(PartitionTable):
            def __init__(self, region: SharedRegion) -> None:
                super().__init__(region)
                # All of an mmap that a table uses.
                self._mm = cast(mmap, _SlotMemory(self._mm, ports.scheduler.joint))

            def publish(self, slot: int, value: Any) -> None:
                ports.scheduler.joint("publishes a slot")
                super().publish(slot, value)
                ports.published(slot)

        return JointedTable

    def _store(self) -> type[EmbeddedStore]:
        ports = self

        class JointedStore(EmbeddedStore):
            is_open = False

            def __init__(self, path: Path, session_id: int) -> None:
                super().__init__(path, session_id)
                ports.own(self, self._database.close)
                self.is_open = True

            def _change(self, path: str, act: Callable[[], Any]) -> Any:
                if not self.is_open:
                    return super()._change(path, act)
                ports.scheduler.joint("changes the store")
                result = super()._change(path, act)
                ports.scheduler.joint("has changed the store")
                return result

        return JointedStore

    def _rewrite_steps(self, *args: Any) -> rewriting.Steps:
        """A pass that its process leaves behind, as it is."""
        steps = self._real_rewrite_steps(*args)
        return self.own(steps, lambda: self.disk.end_of_a_life(close=steps.close))

    def _uuid4(self) -> UUID:
        return UUID(bytes=self._random.randbytes(16), version=4)

    def _metadata(self, directory: Path | str, topic_id: UUID) -> None:
        self.scheduler.joint("has made a directory")
        write_partition_metadata(directory, topic_id)
        self.scheduler.joint("has written partition.metadata")

    def patches(self) -> list[Patch]:
        virtual_time = VirtualTime(self.scheduler)
        context = SimpleNamespace(set=lambda *_: None, term=lambda: None)
        return [
            *super().patches(),
            *_everywhere("time", time, virtual_time),
            (clocks, "time", virtual_time),
            *_everywhere("monotonic_ns", time.monotonic_ns, virtual_time.monotonic_ns),
            *_everywhere("uuid4", uuid4, self._uuid4),
            *_everywhere("random", sys.modules["random"], self._random),
            (graceful_close, "select", SimpleNamespace(poll=lambda: SimulatedPoll(self.scheduler), POLLIN=1)),
            (messaging, "Link", SimulatedLink),
            (SimulatedLink, "exchange", self.exchange),
            (peers, "zmq", SimpleNamespace(Context=lambda: context, MAX_SOCKETS=0)),
            (peers, "require_threads", lambda *_: None),
            (rings, "RingWriter", self._ring_writer()),
            (resources, "PartitionTable", self._partition_table()),
            (rewriting, "rewrite_steps", self._rewrite_steps),
            (closing, "HelperThreads", AtOnce),
            (write_behind, "HelperThreads", AtOnce),
            *((module, "os", self.disk) for module in self._on_disk()),
            (copies, "EmbeddedStore", self._store()),
            (embedded_session, "threading", SimpleNamespace(Event=lambda: Event(self.scheduler))),
            (store_copy, "EmbeddedStore", self._store()),
            (loading, "write_partition_metadata", self._metadata),
        ]

    def _on_disk(self) -> Sequence[ModuleType]:
        return segment_files, file_cache, atomic_write, connection, cached_reads, partitions


def _everywhere(name: str, real: object, stand_in: object) -> Iterator[Patch]:
    """In every module of the broker's processes that has it."""
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("kafkad.processes.") and vars(module).get(name) is real:
            yield module, name, stand_in
