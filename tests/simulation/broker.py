"""The broker's processes as strands, and the supervisor played: it starts, reaps, tells and stops as the real one.

A death is noticed some time after it happened, and another incarnation begins some time after that.
"""

import select
import socket
import traceback
from collections.abc import Callable
from typing import cast

from kafkad.adapters.links.supervision_channel import (
    BrokerStateChanged,
    ChannelClosed,
    Fatal,
    Message,
    ProcessesChanged,
    Ready,
    Stop,
    Stopped,
)
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessState
from kafkad.config import BrokerConfig, Listener
from kafkad.core.ports import StorageFailed
from kafkad.core.supervision.broker_state import BrokerState, enter, leaving
from kafkad.core.supervision.stop_sequence import StopSequence
from kafkad.plugin_loading import Plugins
from kafkad.processes.network.loop import NetworkProcess
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.supervisor.resources import Resources
from kafkad.processes.worker.loop import WorkerProcess
from tests.one_thread import PROCESSES, Incarnation, OneThreadBroker
from tests.simulation.ports import Ports
from tests.simulation.scheduler import MS, NS, Timers, Violated
from tests.simulation.sockets import Door, Port


class Broker(OneThreadBroker):
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
        super().__init__(
            ports, config, plugins, name=name, processes={**PROCESSES, "worker": worker, "network": network}
        )
        self.ports = ports
        self.port = Port(ports.scheduler, ports.descriptors)
        self.timers = Timers(ports.scheduler)
        self.on_start: Callable[[], None] = lambda: None
        self.was_clean = False
        """Whether the last stop was."""
        self._stopping: StopSequence | None = None
        self._unclean_workers = 0
        self._channels = select.epoll()
        ports.scheduler.readiness.watch(self._channels.fileno(), self)
        self._scheduler.add(self)
        self._scheduler.add(self.timers)

    # The whole broker.

    def start(self) -> None:
        self._scheduler.note(self._me, "starts the broker")
        self.on_start()
        self._stopping, self._unclean_workers = None, 0
        resources, registry = self.acquire_resources(), self.registry
        registry.broker_state = enter(BrokerState.NOT_RUNNING, BrokerState.STARTING)
        if not all(resources.was_clean):
            registry.broker_state = enter(BrokerState.STARTING, BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN)
        for key in registry.keys:
            is_played = key.role == "reporter"
            registry.begin_incarnation(key, ProcessState.DEAD if is_played else ProcessState.STARTING)
        for key in registry.keys:
            if key.role != "reporter":
                self.fork(key)

    @property
    def is_running(self) -> bool:
        return self.resources is not None

    @property
    def is_stopping(self) -> bool:
        return self._stopping is not None

    @property
    def is_whole(self) -> bool:
        """Every process is there and ready, and nothing is about to happen to one."""
        wanted = 0 if self.resources is None else len(self.registry.keys) - 1
        return (
            wanted > 0
            and len(self.incarnations) == wanted
            and all(incarnation.is_ready for incarnation in self.incarnations.values())
        )

    @property
    def is_asleep(self) -> bool:
        """It is whole, and nobody has anything to do."""
        return self.is_whole and all(incarnation.strand.is_asleep for incarnation in self.incarnations.values())

    def crash(self) -> None:
        """All processes at once; the machine stays up."""
        self._scheduler.note(self._me, "everybody dies at once")
        for incarnation in list(self.incarnations.values()):
            self.reap(incarnation)
        self._over()

    def stop(self) -> None:
        """SIGTERM."""
        if self._stopping is not None or self.resources is None:
            return
        self._scheduler.note(self._me, "stops the broker")
        self.timers.clear()
        registry = self.registry
        for state in leaving(BrokerState(registry.broker_state)):
            registry.broker_state = enter(BrokerState(registry.broker_state), state)
            self._tell_all(BrokerStateChanged(state=state))
        workers = len(registry.role("worker"))
        self._unclean_workers += workers - sum(key.role == "worker" for key in self.incarnations)
        self._stopping = StopSequence()
        self._continue_stopping()

    def _continue_stopping(self) -> None:
        stopping = self._stopping
        if stopping is None:
            return
        stage = stopping.advance((key.role for key in self.incarnations), self._scheduler.now_ms)
        if stage is not None:
            for incarnation in [
                incarnation for incarnation in self.incarnations.values() if incarnation.key.role == stage.role
            ]:
                self.registry.set_state(incarnation.key, ProcessState.STOPPING)
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
        self.timers.clear()
        self.port.close()
        self.release_resources()
        self._stopping = None

    # One process.

    def fork(self, key: ProcessKey) -> Incarnation:
        incarnation = super().fork(key)
        self._channels.register(incarnation.channel.fd, select.EPOLLIN)
        self._scheduler.note(self._me, f"begins {incarnation.strand.name}")
        self._scheduler.add(incarnation.strand)
        return incarnation

    def _listeners(self) -> list[tuple[Listener, socket.socket]]:
        door = Door(self.port, lambda end: self.ports.own(end, end.close))
        # All of a socket that a network process uses of one that listens.
        listener = cast(socket.socket, self.ports.own(door, door.close))
        return [(self.config.network.listeners[0], listener)]

    def kill(self, role: str) -> None:
        """One of that role dies: some joints from now, or at once, wherever it stands."""
        random = self._scheduler.random
        alive = [incarnation for incarnation in self.incarnations.values() if incarnation.key.role == role]
        if not alive:
            return
        incarnation, joints = random.choice(alive), random.choice((0, 1, 2, 5, 10, 30))
        if incarnation.strand.is_over:
            return
        incarnation.was_killed = True
        if joints:
            incarnation.strand.fuse = joints
        else:
            self._scheduler.note(incarnation.strand.name, "is killed")
            incarnation.strand.kill()

    def spare(self) -> None:
        """Who was to die some joints from now lives on."""
        for incarnation in self.incarnations.values():
            if incarnation.strand.fuse is not None:
                incarnation.strand.fuse = None
                incarnation.was_killed = incarnation.strand.is_over

    # What the supervisor notices.

    def is_ready(self) -> bool:
        if any(incarnation.strand.is_over for incarnation in self.incarnations.values()):
            return True
        if self._scheduler.readiness.is_quiet(self._channels.fileno()):
            return False
        return bool(self._channels.poll(0))

    def act(self) -> None:
        for incarnation in list(self.incarnations.values()):
            self._listen(incarnation)
            if incarnation.strand.is_over:
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
                self.registry.set_state(incarnation.key, ProcessState.READY)
                self._look_whether_ready()
            case Stopped(is_clean=is_clean):
                incarnation.is_stopped, incarnation.is_clean = True, is_clean
            case Fatal(text=text):
                raise Violated(f"{incarnation.key} says that the broker must stop: {text}")

    def _look_whether_ready(self) -> None:
        state = BrokerState(self.registry.broker_state)
        starting = (BrokerState.STARTING, BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN)
        if state in starting and self.is_whole and self._stopping is None:
            self.registry.broker_state = enter(state, BrokerState.RUNNING_AS_BROKER)
            self._tell_all(BrokerStateChanged(state=BrokerState.RUNNING_AS_BROKER))

    def _ended(self, incarnation: Incarnation) -> None:
        strand = incarnation.strand
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
        self.reap(incarnation)
        if self._stopping is None:
            delay_ns = self._scheduler.random.choice((0, 1 * MS, 20 * MS, 300 * MS, 2 * NS))
            self.timers.after(delay_ns, lambda: self._begin_again(incarnation.key))
        self._tell_all(ProcessesChanged())
        self._continue_stopping()

    def _begin_again(self, key: ProcessKey) -> None:
        self.fork(key)
        self._tell_all(ProcessesChanged())
