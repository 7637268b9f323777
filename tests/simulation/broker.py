"""The broker's processes as strands, and the supervisor played: it starts, reaps, tells and stops as the real one.

A death is noticed some time after it happened, and another incarnation begins some time after that.
"""

import select
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from kafkad.adapters.links.supervision_channel import (
    BrokerStateChanged,
    ChannelClosed,
    Fatal,
    Message,
    ProcessesChanged,
    Ready,
    Stop,
    Stopped,
    ToChild,
    channel_pair,
)
from kafkad.adapters.shared_memory.arena import Arena
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry, ProcessState
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.config import BrokerConfig
from kafkad.core.ports import StorageFailed
from kafkad.core.supervision.broker_state import BrokerState, enter, leaving
from kafkad.core.supervision.stop_sequence import StopSequence
from kafkad.plugin_loading import Plugins
from kafkad.processes.network.shell import NetworkProcess
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.supervisor.resources import Resources, take_resources
from kafkad.processes.worker.shell import WorkerProcess
from tests.forked_plugins import forked
from tests.simulation.incarnation import Incarnation, Processes, live
from tests.simulation.ports import Ports
from tests.simulation.scheduler import MS, NS, Strand, Timers, Violated
from tests.simulation.sockets import Port


class Broker:
    """From `start` to `stop` or `crash`, and again; log directories and store are what goes on."""

    deadline_ns = 1 << 62

    def __init__(
        self,
        ports: Ports,
        config: BrokerConfig,
        plugins: Plugins,
        *,
        worker: Callable[[ChildContext], WorkerProcess] = WorkerProcess,
        network: Callable[[ChildContext], NetworkProcess] = NetworkProcess,
        name: str = "",
    ) -> None:
        self.name = name
        """What its processes are called by first; nothing where there is one broker."""
        self._me = f"{name}supervisor"
        self.ports = ports
        self.config = config
        self.port = Port(ports.scheduler, ports.descriptors)
        self.incarnations: dict[ProcessKey, Incarnation] = {}
        self.resources: Resources | None = None
        self.timers = Timers(ports.scheduler)
        self.on_start: Callable[[], None] = lambda: None
        self.was_clean = False
        """Whether the last stop was."""
        self._scheduler = ports.scheduler
        self._plugins = plugins
        self._processes: Processes = {"worker": worker, "network": network}
        self._stopping: StopSequence | None = None
        self._unclean_workers = 0
        self._arena_regions: dict[str, list[SharedRegion]] = {}
        self._strands: list[Strand] = []
        self._channels = select.epoll()
        ports.scheduler.readiness.watch(self._channels.fileno(), self)
        self._scheduler.add(self)
        self._scheduler.add(self.timers)

    # The whole broker.

    def start(self) -> None:
        self._scheduler.note(self._me, "starts the broker")
        self.on_start()
        self._stopping, self._unclean_workers = None, 0
        resources = take_resources(self.config)
        shared = resources.shared
        sizes = {"network": shared.arenas, "fetcher": shared.fetcher_arenas}
        regions = {role: [SharedRegion("arena", each.size) for each in arenas] for role, arenas in sizes.items()}
        self._arena_regions = regions
        self.resources = replace(
            resources,
            shared=replace(
                shared,
                arenas=tuple(map(Arena, regions["network"])),
                fetcher_arenas=tuple(map(Arena, regions["fetcher"])),
            ),
        )
        registry = self.resources.shared.registry
        registry.broker_state = enter(BrokerState.NOT_RUNNING, BrokerState.STARTING)
        if not all(self.resources.was_clean):
            registry.broker_state = enter(BrokerState.STARTING, BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN)
        for key in registry.keys:
            is_played = key.role == "reporter"
            registry.begin_incarnation(key, ProcessState.DEAD if is_played else ProcessState.STARTING)
        for key in registry.keys:
            if key.role != "reporter":
                self._begin(key)

    @property
    def is_running(self) -> bool:
        return self.resources is not None

    @property
    def is_stopping(self) -> bool:
        return self._stopping is not None

    @property
    def is_whole(self) -> bool:
        """Every process is there and ready, and nothing is about to happen to one."""
        wanted = 0 if self.resources is None else len(self.resources.shared.registry.keys) - 1
        return (
            wanted > 0
            and len(self.incarnations) == wanted
            and all(incarnation.is_ready for incarnation in self.incarnations.values())
        )

    @property
    def is_asleep(self) -> bool:
        """It is whole, and nobody has anything to do."""
        return self.is_whole and all(strand.is_asleep for strand in self._strands)

    def crash(self) -> None:
        """All processes at once; the machine stays up."""
        self._scheduler.note(self._me, "everybody dies at once")
        for incarnation in list(self.incarnations.values()):
            self._end(incarnation)
        self._over()

    def stop(self) -> None:
        """SIGTERM."""
        if self._stopping is not None or self.resources is None:
            return
        self._scheduler.note(self._me, "stops the broker")
        self.timers.clear()
        registry = self.resources.shared.registry
        for state in leaving(BrokerState(registry.broker_state)):
            registry.broker_state = enter(BrokerState(registry.broker_state), state)
            self._tell_all(BrokerStateChanged(state=state))
        workers = len(registry.role("worker"))
        self._unclean_workers += workers - sum(key.role == "worker" for key in self.incarnations)
        self._stopping = StopSequence()
        self._go_on_stopping()

    def _go_on_stopping(self) -> None:
        stopping = self._stopping
        if stopping is None:
            return
        stage = stopping.advance((key.role for key in self.incarnations), self._scheduler.now_ms)
        if stage is not None:
            for incarnation in [
                incarnation for incarnation in self.incarnations.values() if incarnation.key.role == stage.role
            ]:
                self._registry.set_state(incarnation.key, ProcessState.STOPPING)
                self._send(incarnation, Stop(deadline_ms=stage.deadline_ms))
                self.timers.after((stage.deadline_ms + 1) * MS - self._scheduler.now_ns, self._killer(incarnation))
        if stopping.is_over:
            assert self.resources is not None, "a stop has something to stop"
            self.was_clean = not self._unclean_workers
            if self.was_clean:
                self._mark_clean(self.resources)
            self._scheduler.note(self._me, f"has stopped, {self._unclean_workers} workers were not clean")
            self._over()

    def _mark_clean(self, resources: Resources) -> None:
        failed = ControllerHandover(resources.shared.table).offline
        for at, directory in enumerate(resources.log_directories):
            if at not in failed and directory.is_online:
                try:
                    directory.mark_clean_shutdown()
                except StorageFailed as error:
                    self._scheduler.note(self._me, f"{directory.path.name} is not marked clean: {error}")

    def _killer(self, incarnation: Incarnation) -> Callable[[], None]:
        def kill() -> None:
            if self.incarnations.get(incarnation.key) is incarnation:
                raise Violated(f"{incarnation.key} has not stopped in time")

        return kill

    def _over(self) -> None:
        assert self.resources is not None, "it was running"
        self.timers.clear()
        self.port.close()
        self.resources.close()
        for region in chain.from_iterable(self._arena_regions.values()):
            region.close()
        self.resources, self._stopping = None, None

    # One process.

    @property
    def _registry(self) -> ProcessRegistry:
        assert self.resources is not None, "the broker is not running"
        return self.resources.shared.registry

    def _begin(self, key: ProcessKey) -> None:
        resources = self.resources
        assert resources is not None and key not in self.incarnations
        self._registry.set_state(key, ProcessState.STARTING)
        ours, theirs = channel_pair()
        incarnation = Incarnation(key=key, channel=ours)
        shared = resources.shared
        # The bookkeeping of its arena is what a forked process has for itself.
        if key.role == "network":
            shared = replace(shared, arenas=self._with_own(shared.arenas, key))
        elif key.role == "fetcher":
            shared = replace(shared, fetcher_arenas=self._with_own(shared.fetcher_arenas, key))
        context = ChildContext(
            key=key,
            incarnation=self._registry.incarnation(key),
            supervisor_pid=0,
            shared=shared,
            config=self.config,
            plugins=forked(self._plugins),
            runtime_dir=resources.runtime_dir,
            channel=theirs,
            listeners=[],
            endpoints=resources.endpoints,
            log_directories=resources.log_directories,
            was_clean=resources.was_clean,
        )
        name = f"{self.name}{key}.{context.incarnation}"
        incarnation.strand = Strand(
            self._scheduler,
            name,
            lambda: live(incarnation, context, self.ports, self.port, self._processes),
            home=self,
        )
        self.incarnations[key] = incarnation
        self._strands.append(incarnation.strand)
        self._channels.register(incarnation.channel.fd, select.EPOLLIN)
        self._scheduler.note(self._me, f"begins {name}")
        self._scheduler.add(incarnation.strand)

    def _with_own(self, arenas: Sequence[Arena], key: ProcessKey) -> tuple[Arena, ...]:
        own = Arena(self._arena_regions[key.role][key.index])
        return (*arenas[: key.index], own, *arenas[key.index + 1 :])

    def light_fuse(self, key: ProcessKey, joints: int) -> None:
        """It dies at so many more joints from now; at 0 at once, wherever it stands."""
        incarnation = self.incarnations.get(key)
        if incarnation is None or incarnation.strand is None or incarnation.strand.is_over:
            return
        incarnation.was_killed = True
        if joints:
            incarnation.strand.fuse = joints
        else:
            self._scheduler.note(incarnation.strand.name, "is killed")
            incarnation.strand.kill()

    def _end(self, incarnation: Incarnation) -> None:
        """Nothing is left of it but what it has shared."""
        strand = incarnation.strand
        assert strand is not None
        strand.kill()
        self._scheduler.remove(strand)
        self.ports.bury(strand)
        for sock in incarnation.sockets:
            sock.close()
        self._strands.remove(strand)
        self._channels.unregister(incarnation.channel.fd)
        incarnation.channel.close()
        del self.incarnations[incarnation.key]

    # What the supervisor notices.

    def is_ready(self) -> bool:
        for strand in self._strands:
            if strand.is_over:
                return True
        if self._scheduler.readiness.is_quiet(self._channels.fileno()):
            return False
        return bool(self._channels.poll(0))

    def act(self) -> None:
        for incarnation in list(self.incarnations.values()):
            self._listen(incarnation)
            if incarnation.strand is not None and incarnation.strand.is_over:
                self._ended(incarnation)

    def _listen(self, incarnation: Incarnation) -> None:
        try:
            messages = incarnation.channel.receive()
        except ChannelClosed:
            return
        for message in messages:
            self._heard(incarnation, message)

    def _heard(self, incarnation: Incarnation, message: Message) -> None:
        match message:
            case Ready():
                incarnation.is_ready = True
                self._registry.set_state(incarnation.key, ProcessState.READY)
                self._look_whether_ready()
            case Stopped(is_clean=is_clean):
                incarnation.is_stopped, incarnation.is_clean = True, is_clean
            case Fatal(text=text):
                raise Violated(f"{incarnation.key} says that the broker must stop: {text}")

    def _look_whether_ready(self) -> None:
        state = BrokerState(self._registry.broker_state)
        starting = (BrokerState.STARTING, BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN)
        if state in starting and self.is_whole and self._stopping is None:
            self._registry.broker_state = enter(state, BrokerState.RUNNING_AS_BROKER)
            self._tell_all(BrokerStateChanged(state=BrokerState.RUNNING_AS_BROKER))

    def _ended(self, incarnation: Incarnation) -> None:
        strand = incarnation.strand
        assert strand is not None
        if strand.failure is not None:
            text = "".join(traceback.format_exception(strand.failure))
            raise Violated(f"{strand.name} ended: this should not happen\n{text}")
        # Who is told to stop while it begins (a controller that waits for ZooKeeper) has nothing to say about its end.
        is_over = incarnation.is_stopped or not incarnation.is_ready
        if not incarnation.was_killed and not (is_over and self._stopping is not None):
            raise Violated(f"{strand.name} has ended without being told to")
        self._scheduler.note(self._me, f"{strand.name} has ended")
        self._unclean_workers += (
            incarnation.key.role == "worker" and self._stopping is not None and not incarnation.is_clean
        )
        self._end(incarnation)
        self._registry.begin_incarnation(incarnation.key, ProcessState.DEAD)
        if self._stopping is None:
            delay_ns = self._scheduler.random.choice((0, 1 * MS, 20 * MS, 300 * MS, 2 * NS))
            self.timers.after(delay_ns, lambda: self._begin_again(incarnation.key))
        self._tell_all(ProcessesChanged())
        self._go_on_stopping()

    def _begin_again(self, key: ProcessKey) -> None:
        self._begin(key)
        self._tell_all(ProcessesChanged())

    def _tell_all(self, message: ToChild) -> None:
        for incarnation in self.incarnations.values():
            self._send(incarnation, message)

    def _send(self, incarnation: Incarnation, message: ToChild) -> None:
        try:
            incarnation.channel.send(message)
        except ChannelClosed:
            self._scheduler.note(self._me, f"can't tell {incarnation.key} any more")
