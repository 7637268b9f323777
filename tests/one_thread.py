"""The supervisor's part of the lives of processes that share one thread.

It takes the resources, gives an incarnation what a forked process gets and has for itself, and takes from one that
has died what the kernel would. Each process is a strand (`tests.simulation.scheduler`); a driver says which one goes
on, and what is made of what they report: `tests.simulation.broker` leaves it to a seed, `tests.processes.pieces` to
the test.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from socket import socket
from types import SimpleNamespace
from typing import Any, TypeVar

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.links import event_queue
from kafkad.adapters.links.supervision_channel import Channel, ChannelClosed, ToChild, channel_pair
from kafkad.adapters.operating_system import helper_threads
from kafkad.adapters.shared_memory.arena import Arena
from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry, ProcessState
from kafkad.config import BrokerConfig, Listener
from kafkad.core.metrics.catalogue import GAUGE_INDEXES
from kafkad.plugin_loading import Plugins
from kafkad.processes.cleaner import compactor, segment_transfers
from kafkad.processes.cleaner import main as cleaner_main
from kafkad.processes.controller import main as controller_main
from kafkad.processes.fetcher.loop import FetcherProcess
from kafkad.processes.network import assembly as network_assembly
from kafkad.processes.network.logs import page_cache_prefetch, reading_threads
from kafkad.processes.network.loop import NetworkProcess
from kafkad.processes.runtime import event_loop
from kafkad.processes.runtime.child import ChildContext, SharedState
from kafkad.processes.supervisor.resources import Resources, acquire_resources
from kafkad.processes.worker import assembly as worker_assembly
from kafkad.processes.worker import upkeep
from kafkad.processes.worker.loop import WorkerProcess
from kafkad.processes.worker.moving import moves
from tests.simulation.epoll import SimulatedEpoll, VirtualDescriptors
from tests.simulation.scheduler import Scheduler, Strand

Patch = tuple[object, str, object]
"""Whose attribute is what while processes run in this thread."""
Held = TypeVar("Held")
RINGING = (upkeep, moves, compactor, segment_transfers, reading_threads, page_cache_prefetch, event_queue)
"""The modules whose threads ring an eventfd."""


class ProcessPorts:
    """All stand-ins, and what belongs to whom."""

    epoll_type: type[SimulatedEpoll] = SimulatedEpoll

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.descriptors = VirtualDescriptors()
        self._belongings: dict[Strand, dict[object, Callable[[], None]]] = {}

    # What is given back when a life ends, however it does.

    def own(self, what: Held, free: Callable[[], None]) -> Held:
        """It belongs to the process that acts. What a test makes itself is the test's to close."""
        owner = self.scheduler.current
        if owner is not None:
            self._belongings.setdefault(owner.process, {})[what] = free
        return what

    def disown(self, what: object) -> None:
        for belongings in self._belongings.values():
            belongings.pop(what, None)

    def bury(self, strand: Strand) -> None:
        belongings = self._belongings.get(strand, {})
        while belongings:
            # One may free others, which are disowned then.
            belongings.pop(next(iter(belongings)))()
        self._belongings.pop(strand, None)

    # The stand-ins.

    def _epoll(self) -> SimulatedEpoll:
        epoll = self.epoll_type(self.scheduler, self.descriptors)
        return self.own(epoll, epoll.close)

    def _threads(self, max_workers: int, thread_name_prefix: str) -> Any:
        """What has the methods of a `ThreadPoolExecutor`."""
        raise NotImplementedError

    def _file_cache(self) -> type[FileCache]:
        ports = self

        class OwnedFileCache(FileCache):
            """Its files are closed with its process."""

            def __init__(self, budget: int, *, read_only: bool = False) -> None:
                super().__init__(budget, read_only=read_only)
                ports.own(self, self.close_descriptors)

            def close_descriptors(self) -> None:
                for file in {id(file): file for file in self._ring if file.fd >= 0}.values():
                    self.close(file)

        return OwnedFileCache

    def patches(self) -> list[Patch]:
        files, eventfds = self._file_cache(), _OwnedEventfds(self)
        return [
            (event_loop, "select", SimpleNamespace(epoll=self._epoll, EPOLLIN=1, EPOLLET=1 << 31)),
            (helper_threads, "ThreadPoolExecutor", self._threads),
            (worker_assembly, "FileCache", files),
            (network_assembly, "FileCache", files),
            *((module, "os", eventfds) for module in RINGING),
        ]


class _OwnedEventfds:
    """An `os` whose eventfds end with the incarnation that made them."""

    def __init__(self, ports: ProcessPorts) -> None:
        self._ports = ports

    def eventfd(self, initial: int, flags: int) -> int:
        fd = os.eventfd(initial, flags)
        return self._ports.own(fd, lambda: os.close(fd))

    def close(self, fd: int) -> None:
        self._ports.disown(fd)
        os.close(fd)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@contextmanager
def installed(patches: Sequence[Patch]) -> Iterator[None]:
    """All of them, until the block ends."""
    missing = object()
    before = [(owner, name, vars(owner).get(name, missing)) for owner, name, _ in patches]
    try:
        for owner, name, value in patches:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            if value is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


Process = WorkerProcess | NetworkProcess | FetcherProcess
"""One that can be looked into; of the others there is only what they say."""
PROCESSES: Mapping[str, Callable[[ChildContext], Process]] = {
    "worker": WorkerProcess,
    "network": NetworkProcess,
    "fetcher": FetcherProcess,
}


@dataclass(slots=True, kw_only=True, eq=False)
class Incarnation:
    """What the supervisor knows of it."""

    context: ChildContext
    channel: Channel
    """The supervisor's end."""
    strand: Strand = field(init=False)
    process: Process | None = None
    is_ready: bool = False
    is_stopped: bool = False
    is_clean: bool = False
    was_killed: bool = False

    @property
    def key(self) -> ProcessKey:
        return self.context.key


class OneThreadBroker:
    """Its processes, while it has resources."""

    def __init__(
        self,
        ports: ProcessPorts,
        config: BrokerConfig,
        plugins: Plugins,
        *,
        name: str = "",
        processes: Mapping[str, Callable[[ChildContext], Process]] = PROCESSES,
    ) -> None:
        self.name = name
        """What its processes are called by first; nothing where there is one broker."""
        self._me = f"{name}supervisor"
        self.config = config
        self.incarnations: dict[ProcessKey, Incarnation] = {}
        self.resources: Resources | None = None
        self._ports = ports
        self._scheduler = ports.scheduler
        self._plugins = plugins
        self._processes = processes

    # What all processes share.

    @property
    def shared(self) -> SharedState:
        assert self.resources is not None, "the broker is not running"
        return self.resources.shared

    @property
    def registry(self) -> ProcessRegistry:
        return self.shared.registry

    def acquire_resources(self) -> Resources:
        self.resources = acquire_resources(self.config)
        return self.resources

    def release_resources(self) -> None:
        assert self.resources is not None, "it was running"
        self.resources.close()
        self.resources = None

    # One process.

    def fork(self, key: ProcessKey) -> Incarnation:
        """The next incarnation of `key`, which has done nothing yet."""
        resources = self.resources
        assert resources is not None and key not in self.incarnations
        self.registry.set_state(key, ProcessState.STARTING)
        ours, theirs = channel_pair()
        context = ChildContext(
            key=key,
            incarnation=self.registry.incarnation(key),
            supervisor_pid=0,
            shared=self._forked_memory(),
            config=self.config,
            plugins=self._forked_plugins(),
            runtime_dir=resources.runtime_dir,
            channel=theirs,
            listeners=[],
            endpoints=resources.endpoints,
            log_directories=resources.log_directories,
            was_clean=resources.was_clean,
        )
        incarnation = self.incarnations[key] = Incarnation(context=context, channel=ours)
        name = f"{self.name}{key}.{context.incarnation}"
        incarnation.strand = Strand(self._scheduler, name, lambda: self._live(incarnation), home=self)
        return incarnation

    def _forked_memory(self) -> SharedState:
        """The bookkeeping of its arena is what a forked process has for itself."""
        shared = self.shared
        return replace(
            shared,
            arenas=tuple(Arena(each._region) for each in shared.arenas),
            fetcher_arenas=tuple(Arena(each._region) for each in shared.fetcher_arenas),
        )

    def _forked_plugins(self) -> Plugins:
        """What keeps counts is the process's own."""
        return replace(
            self._plugins,
            quota_managers=deepcopy(self._plugins.quota_managers),
            replication_quota_managers=deepcopy(self._plugins.replication_quota_managers),
        )

    def _live(self, incarnation: Incarnation) -> None:
        """From the fork to the end, in the strand of `incarnation`."""
        context = incarnation.context
        context.counters.zero(context.registry.slot(context.key), GAUGE_INDEXES)
        match context.key.role:
            case "controller":
                controller_main(context)
            case "cleaner":
                cleaner_main(context)
            case role:
                if role == "network":
                    context = replace(context, listeners=self._listeners())
                incarnation.process = self._processes[role](context)
                incarnation.process.run()

    def _listeners(self) -> list[tuple[Listener, socket]]:
        """Those of the network process that acts."""
        raise NotImplementedError

    def reap(self, incarnation: Incarnation) -> None:
        """It is dead, by itself or now: nothing is left of it but what it has shared."""
        incarnation.strand.kill()
        self._scheduler.remove(incarnation.strand)
        self._ports.bury(incarnation.strand)
        incarnation.context.channel.close()
        incarnation.channel.close()
        del self.incarnations[incarnation.key]
        self.registry.begin_incarnation(incarnation.key, ProcessState.DEAD)

    def _tell_all(self, message: ToChild) -> None:
        for incarnation in self.incarnations.values():
            self._send(incarnation, message)

    def _send(self, incarnation: Incarnation, message: ToChild) -> None:
        try:
            incarnation.channel.send(message)
        except ChannelClosed:
            self._scheduler.note(self._me, f"can't tell {incarnation.key} any more")
