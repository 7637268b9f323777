"""The child processes of the supervisor: starting, messaging, killing and reaping incarnations.

An incarnation is replaced only after it was reaped, so two incarnations of one process never overlap: a killed writer
may complete a write late.
"""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from multiprocess.process import BaseProcess

from kafkad.adapters.links.supervision_channel import Channel, ChannelClosed, ToChild, channel_pair
from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry, ProcessState
from kafkad.core.supervision.restart_backoff import RestartBackoff
from kafkad.core.supervision.watchdog import Watchdog
from kafkad.processes.runtime.child import HANDLED_SIGNALS, STACKS_SIGNAL, ChildContext, RoleMain, run_child
from kafkad.processes.supervisor.forking import CannotFork, Process


@dataclass(slots=True, kw_only=True)
class Incarnation:
    """One incarnation of a child: process, pidfd (readable at its exit), and our end of the channel."""

    key: ProcessKey
    incarnation: int
    process: BaseProcess
    pidfd: int
    channel: Channel
    is_ready: bool = False
    is_clean: bool = False
    """Whether `Stopped` was received and all state is on disk."""
    watchdog: Watchdog = field(default_factory=Watchdog)
    is_killed: bool = False

    def close(self) -> None:
        os.close(self.pidfd)
        self.channel.close()


@dataclass(slots=True, kw_only=True)
class Child:
    """A process through all its incarnations."""

    key: ProcessKey
    main: RoleMain
    backoff: RestartBackoff
    incarnation: Incarnation | None = None
    restart_at_ms: int | None = None


class Children:
    """All children, in the order of the process registry."""

    def __init__(
        self,
        registry: ProcessRegistry,
        mains: dict[str, RoleMain],
        make_context: Callable[[ProcessKey, int, Channel], ChildContext],
        forget: Callable[[ProcessKey], None],
        failures_allowed: int,
    ) -> None:
        self._registry = registry
        self._make_context = make_context
        self._forget = forget
        self._children = {
            key: Child(key=key, main=mains[key.role], backoff=RestartBackoff(failures_allowed=failures_allowed))
            for key in registry.keys
        }
        for key in registry.keys:
            # Before the first fork, so that each child finds all its peers in the process registry.
            registry.begin_incarnation(key)
        gc.collect()
        # The garbage collector then ignores these objects, so their pages stay shared between all processes.
        gc.freeze()

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children.values())

    def __getitem__(self, key: ProcessKey) -> Child:
        return self._children[key]

    def incarnations(self) -> list[Incarnation]:
        return [child.incarnation for child in self if child.incarnation is not None]

    def start(self, child: Child) -> Incarnation:
        """Fork the next incarnation, which the process registry already counts.

        Raises `CannotFork`; then the same incarnation may be started again.
        """
        assert child.incarnation is None, f"{child.key} is still alive"
        child.restart_at_ms = None
        with ExitStack() as on_failure:
            try:
                child.incarnation = self._begin(child, on_failure)
            except OSError as error:
                raise CannotFork(error) from error
            on_failure.pop_all()
        return child.incarnation

    def _begin(self, child: Child, on_failure: ExitStack) -> Incarnation:
        """`on_failure` undoes the preparations when the fork fails."""
        self._registry.set_state(child.key, ProcessState.STARTING)
        on_failure.callback(self._registry.set_state, child.key, ProcessState.DEAD)
        ours, theirs = channel_pair()
        on_failure.callback(ours.close)
        try:
            process = self._fork(child, ours, theirs)
        finally:
            theirs.close()
        assert process.pid is not None, "a started process has a pid"
        on_failure.callback(process.close)
        on_failure.callback(process.join)
        on_failure.callback(process.kill)
        pidfd = os.pidfd_open(process.pid)
        self._registry.set_pid(child.key, process.pid)
        incarnation = self._registry.incarnation(child.key)
        return Incarnation(key=child.key, incarnation=incarnation, process=process, pidfd=pidfd, channel=ours)

    def _fork(self, child: Child, ours: Channel, theirs: Channel) -> BaseProcess:
        context = self._make_context(child.key, self._registry.incarnation(child.key), theirs)

        def forget() -> None:
            ours.close()
            for other in self.incarnations():
                other.close()
            self._forget(child.key)

        process = Process(target=run_child, args=(context, child.main, forget), name=str(child.key))
        # Until the child resets our handlers, its signals would appear in our signal queue.
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
        return process

    def reap(self, child: Child) -> tuple[Incarnation, int]:
        """The exited incarnation and its exit code (negative: the signal). The registry counts the next incarnation."""
        incarnation = child.incarnation
        assert incarnation is not None, f"{child.key} has no incarnation to reap"
        incarnation.process.join()
        code = incarnation.process.exitcode
        assert code is not None, "a joined process has an exit code"
        child.incarnation = None
        incarnation.close()
        incarnation.process.close()
        self._registry.begin_incarnation(child.key, ProcessState.DEAD)
        return incarnation, code

    def send(self, incarnation: Incarnation, message: ToChild) -> None:
        try:
            incarnation.channel.send(message)
        except ChannelClosed:
            # The process has exited or hangs; its exit is handled when its pidfd becomes readable.
            self.kill(incarnation)

    def send_to_all(self, message: ToChild) -> None:
        for incarnation in self.incarnations():
            self.send(incarnation, message)

    def kill(self, incarnation: Incarnation) -> None:
        """SIGKILL through the pidfd, which can't hit another process with a reused pid."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(incarnation.pidfd, signal.SIGKILL)
        incarnation.is_killed = True

    def request_stacks(self, incarnation: Incarnation) -> None:
        """Make the process write the stacks of its threads to stderr."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(incarnation.pidfd, STACKS_SIGNAL)

    def kill_all(self) -> None:
        """Kill the remaining children and reap them."""
        for incarnation in self.incarnations():
            self.kill(incarnation)
        for child in self:
            if child.incarnation is not None:
                self.reap(child)
