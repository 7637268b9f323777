"""The supervisor's loop: handles signals, exits of children and their messages.

Rules of the core decide when a restart is due, the order of a stop and the legal broker states.
"""

import logging
import math
import select
import signal
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from kafkad import standard_streams
from kafkad.adapters.links.supervision_channel import (
    BrokerStateChanged,
    ChannelClosed,
    Fatal,
    LeadershipMoved,
    Message,
    ProcessesChanged,
    Ready,
    Reload,
    Status,
    Stop,
    Stopped,
)
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.operating_system.service_manager import ServiceManager
from kafkad.adapters.operating_system.terminal import has_hung_up
from kafkad.adapters.shared_memory.counters import Counters
from kafkad.adapters.shared_memory.process_registry import FIRST_INCARNATION, ProcessRegistry, ProcessState
from kafkad.core.supervision.broker_state import BrokerState, enter, leaving
from kafkad.core.supervision.exit_codes import FAILED, OK, REFUSED
from kafkad.core.supervision.restart_backoff import CrashLoop
from kafkad.core.supervision.stop_sequence import StopRole, StopSequence
from kafkad.processes.supervisor.children import Child, Children, Incarnation
from kafkad.processes.supervisor.forking import CannotFork
from kafkad.processes.supervisor.signals import SignalQueue
from kafkad.processes.supervisor.watch import Watch

log = logging.getLogger(__name__)

_CONTROLLED_SHUTDOWN = "stopping: other brokers take over the leadership"
_STOPPING: Mapping[str, str] = {
    "network": "stopping: completing pending requests",
    "fetcher": "stopping: ending fetches from leaders",
    "cleaner": "stopping: ending the cleaning pass",
    "worker": "stopping: flushing {} partitions",
    "controller": "stopping: writing checkpoints",
    "reporter": "stopping: reporting the last metrics",
}
"""The progress of a stop, as the text that `systemctl status` shows."""


class Supervision:
    """From the first child to the last."""

    def __init__(
        self,
        *,
        children: Children,
        registry: ProcessRegistry,
        counters: Counters,
        epoll: select.epoll,
        signals: SignalQueue,
        service: ServiceManager,
        is_recovering: bool,
        on_ready: Callable[[], None],
        on_stopping: Callable[[], None],
        reread: Callable[[], Reload | None],
        stage_ms: Mapping[str, int],
        controlled_shutdown_ms: int = 0,
    ) -> None:
        self._children = children
        self._registry = registry
        self._epoll = epoll
        self._signals = signals
        self._service = service
        self._is_recovering = is_recovering
        self._on_ready = on_ready
        self._on_stopping = on_stopping
        self._reread = reread
        self._stage_ms = stage_ms
        self._controlled_shutdown_ms = controlled_shutdown_ms
        """The timeout of the controlled shutdown; 0: there is none."""
        self._shutdown_deadline_ms: int | None = None
        """Set during the controlled shutdown, in which all processes continue."""
        self._on_event: dict[int, Callable[[], None]] = {}
        self._stopping: StopSequence | None = None
        self._was_ready = False
        self._has_pending_log = False
        self._watching = Watch(children, counters, registry, service, monotonic_ms())
        self.exit_code = OK
        self.unclean_workers = 0

    def run(self) -> int:
        """Run until all children have exited; returns the exit code."""
        self._enter(BrokerState.STARTING)
        if self._is_recovering:
            self._enter(BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN)
        self._watch(self._signals.fd, self._on_signals)
        self._start_all()
        while self._stopping is None or not self._stopping.is_over:
            for fd, _ in self._epoll.poll(self._wait_s()):
                # An earlier event of this pass may have closed this descriptor.
                on_event = self._on_event.get(fd)
                if on_event is not None:
                    on_event()
            self._handle_deadlines(monotonic_ms())
            self._has_pending_log = standard_streams.write_pending()
        self._enter(BrokerState.NOT_RUNNING)
        return self.exit_code

    def _watch(self, fd: int, on_event: Callable[[], None]) -> None:
        self._epoll.register(fd, select.EPOLLIN)
        self._on_event[fd] = on_event

    def _unwatch(self, fd: int) -> None:
        if self._on_event.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def _wait_s(self) -> float:
        """Until the next deadline."""
        deadlines = [self._watching.next_ms]
        if self._shutdown_deadline_ms is not None:
            deadlines.append(self._shutdown_deadline_ms)
        deadlines += [child.restart_at_ms for child in self._children if child.restart_at_ms is not None]
        stage = self._stopping.current if self._stopping is not None else None
        if stage is not None and any(self._unkilled(stage)):
            deadlines.append(stage.deadline_ms)
        longest_s = standard_streams.RETRY_S if self._has_pending_log else math.inf
        return min(max(0, min(deadlines) - monotonic_ms()) / 1000, longest_s)

    def _handle_deadlines(self, now_ms: int) -> None:
        started = False
        for child in self._children:
            if child.restart_at_ms is not None and child.restart_at_ms <= now_ms:
                started = self._restart(child) or started
        if started:
            self._notify_registry_change()
        if self._shutdown_deadline_ms is not None and self._shutdown_deadline_ms <= now_ms:
            log.error("controlled shutdown timed out: stopping although the broker leads partitions")
            self._stop_processes()
        stage = self._stopping.current if self._stopping is not None else None
        if stage is not None and stage.deadline_ms <= now_ms:
            for incarnation in self._unkilled(stage):
                log.error("killing %s: it has not stopped in time", incarnation.key)
                self._children.kill(incarnation)
        if self._watching.next_ms <= now_ms:
            is_stopping = self._stopping is not None
            is_starting = not (self._was_ready or is_stopping)
            self._watching.check(now_ms, is_starting=is_starting, is_stopping=is_stopping, text=self._progress())

    def _unkilled(self, stage: StopRole) -> Iterator[Incarnation]:
        """The children of this stage that were not killed yet: a killed child gets no more signals."""
        return (
            incarnation
            for incarnation in self._children.incarnations()
            if incarnation.key.role == stage.role and not incarnation.is_killed
        )

    def _progress(self) -> str | None:
        if self._stopping is not None:
            return _stop_progress(self._registry, self._stopping.current)
        return None if self._was_ready else _start_progress(self._registry, is_recovering=self._is_recovering)

    def _start_all(self) -> None:
        """Start the first incarnations. If one can't be started, the broker stops."""
        for child in self._children:
            try:
                self._start(child)
            except CannotFork as error:
                self._abandon(f"can't start {child.key}: {error}", REFUSED)
                return

    def _restart(self, child: Child) -> bool:
        """False when the fork failed; the other processes continue."""
        try:
            self._start(child)
        except CannotFork as error:
            child.restart_at_ms = child.backoff.not_begun(monotonic_ms())
            delay_ms = child.restart_at_ms - monotonic_ms()
            log.error("can't start %s, retrying in %d ms: %s", child.key, delay_ms, error)
            return False
        return True

    def _start(self, child: Child) -> None:
        incarnation = self._children.start(child)
        self._watch(incarnation.pidfd, partial(self._on_exit, child))
        self._watch(incarnation.channel.fd, partial(self._on_messages, child, incarnation))

    def _on_exit(self, child: Child) -> None:
        incarnation = child.incarnation
        assert incarnation is not None, "the pidfd of an incarnation is watched until its exit"
        # The last messages are still in the socket.
        self._on_messages(child, incarnation)
        self._unwatch(incarnation.pidfd)
        self._unwatch(incarnation.channel.fd)
        incarnation, code = self._children.reap(child)
        if child.key.role == "worker" and not (incarnation.is_clean and code == 0):
            self.unclean_workers += self._stopping is not None
        if self._stopping is None:
            # Also during a controlled shutdown, which the next controller process continues.
            self._replace(child, code)
        self._notify_registry_change()
        self._continue_stopping()

    def _replace(self, child: Child, code: int) -> None:
        decision = child.backoff.died(monotonic_ms(), has_served=self._was_ready)
        if isinstance(decision, CrashLoop):
            times = f"{decision.failures} times before the broker could serve"
            self._abandon(f"{child.key} exited {times}, last with {_exit_text(code)}", FAILED)
            return
        child.restart_at_ms = decision.at_ms
        delay_ms = max(0, decision.at_ms - monotonic_ms())
        times = f" ({decision.recent_deaths} times within ten minutes)" if decision.recent_deaths > 1 else ""
        log.error("%s exited with %s%s; restarting it in %d ms", child.key, _exit_text(code), times, delay_ms)

    def _on_messages(self, child: Child, incarnation: Incarnation) -> None:
        try:
            messages = incarnation.channel.receive()
        except ChannelClosed:
            # The pidfd reports the exit.
            self._unwatch(incarnation.channel.fd)
            return
        for message in messages:
            self._on_message(child, incarnation, message)

    def _on_message(self, child: Child, incarnation: Incarnation, message: Message) -> None:
        match message:
            case Ready():
                incarnation.is_ready = True
                child.backoff.ready(monotonic_ms())
                self._registry.set_state(child.key, ProcessState.READY)
                self._check_ready()
            case Stopped(is_clean=is_clean):
                incarnation.is_clean = is_clean
            case Status(text=text):
                log.info("%s: %s", child.key, text)
            case LeadershipMoved():
                if self._shutdown_deadline_ms is not None:
                    self._stop_processes()
            case Fatal(text=text, exit_code=exit_code):
                self._abandon(f"{child.key}: {text}", exit_code)
            case _:
                raise AssertionError(f"{child.key} sent {message}, which only the supervisor sends")

    def _notify_registry_change(self) -> None:
        self._children.send_to_all(ProcessesChanged())

    def _enter(self, state: BrokerState) -> None:
        self._registry.broker_state = enter(self._registry.broker_state, state)
        self._children.send_to_all(BrokerStateChanged(state=state))

    def _check_ready(self) -> None:
        all_ready = all(child.incarnation is not None and child.incarnation.is_ready for child in self._children)
        if all_ready and not self._was_ready and self._stopping is None:
            self._was_ready = True
            self._enter(BrokerState.RUNNING_AS_BROKER)
            self._service.ready("serving")
            self._on_ready()

    def _on_signals(self) -> None:
        for number in self._signals.drain():
            if number == signal.SIGHUP and not has_hung_up():
                self._reload()
            elif self._stopping is not None:
                log.info("%s ignored: the broker is already stopping", number.name)
            elif self._shutdown_deadline_ms is not None:
                log.warning("second %s: stopping although the broker leads partitions", number.name)
                self._stop_processes()
            else:
                log.info("%s: stopping the broker", number.name)
                self._stop()

    def _reload(self) -> None:
        if self._stopping is None:
            change = self._reread()
            if change is not None:
                self._children.send_to_all(change)

    def _abandon(self, reason: str, exit_code: int) -> None:
        if self.exit_code == OK:
            log.critical("stopping the broker: %s", reason)
            self.exit_code = exit_code
        else:
            # Often the cause is the same, and was logged.
            log.error("%s, while the broker is stopping", reason)
        if self._stopping is None:
            self._stop()

    def _stop(self) -> None:
        """In a cluster a controlled shutdown comes first: other brokers take over the leadership."""
        if (
            self._shutdown_deadline_ms is None
            and self._was_ready
            and self._controlled_shutdown_ms
            and self.exit_code == OK
        ):
            self._shutdown_deadline_ms = monotonic_ms() + self._controlled_shutdown_ms
            self._service.stopping(_CONTROLLED_SHUTDOWN)
            self._enter(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
        else:
            self._stop_processes()

    def _stop_processes(self) -> None:
        self._shutdown_deadline_ms = None
        self._service.stopping(_STOPPING["network"])
        self._on_stopping()
        for state in leaving(self._registry.broker_state):
            self._enter(state)
        self._stopping = StopSequence(stage_ms=self._stage_ms)
        for child in self._children:
            if child.key.role == "worker" and child.incarnation is None:
                # A process without an incarnation has changed nothing.
                self.unclean_workers += self._is_recovering or self._registry.incarnation(child.key) > FIRST_INCARNATION
            child.restart_at_ms = None
        self._continue_stopping()

    def _continue_stopping(self) -> None:
        if self._stopping is None:
            return
        stage = self._stopping.advance(
            (incarnation.key.role for incarnation in self._children.incarnations()), monotonic_ms()
        )
        if stage is not None:
            self._watching.next_ms = monotonic_ms()
            for incarnation in self._children.incarnations():
                if incarnation.key.role == stage.role:
                    self._registry.set_state(incarnation.key, ProcessState.STOPPING)
                    self._children.send(incarnation, Stop(deadline_ms=stage.deadline_ms))


def _exit_text(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _start_progress(registry: ProcessRegistry, *, is_recovering: bool) -> str:
    done, total = _loaded_partitions(registry)
    percent = 100 * done // total if total else 0
    return f"recovering {percent} %" if is_recovering else f"loading {percent} %"


def _stop_progress(registry: ProcessRegistry, stage: StopRole | None) -> str | None:
    """None if the text has not changed."""
    done, total = _loaded_partitions(registry)
    # Right after `Stop` a worker has not reported its count yet.
    if stage is None or (stage.role == "worker" and done == total):
        return None
    return _STOPPING[stage.role].format(total - done)


def _loaded_partitions(registry: ProcessRegistry) -> tuple[int, int]:
    """The total progress of all workers."""
    rows = [registry.progress(key) for key in registry.role("worker")]
    return sum(row[0] for row in rows), sum(row[1] for row in rows)
