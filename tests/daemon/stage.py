"""One process of the broker alone, really forked, with everything around it played by the test."""

import gc
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import multiprocess
import zmq

from bench.brokers.processes import WITHIN_S, eventually
from kafkad.adapters.links.messaging import LinkSet, PeerGone, PeerReplaced
from kafkad.adapters.links.supervision_channel import (
    Channel,
    ChannelClosed,
    Fatal,
    Message,
    ProcessesChanged,
    Ready,
    Stop,
    Stopped,
    channel_pair,
)
from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessState
from kafkad.config import BrokerConfig, load
from kafkad.plugin_loading import load as load_plugins
from kafkad.processes.runtime.child import ChildContext, RoleMain, run_child
from kafkad.processes.supervisor.resources import acquire_resources


class Actor:
    """A process that the test plays: its links, and every frame that came in."""

    def __init__(self, stage: "Stage", key: ProcessKey) -> None:
        self.key = key
        self.frames: list[bytes] = []
        self._stage = stage
        registry = stage.shared.registry
        registry.set_state(key, ProcessState.READY)
        self._links = LinkSet(stage.zmq_context, stage.runtime_dir, key, registry.incarnation(key))
        self.follow()

    def follow(self) -> None:
        """Look at the process registry: links to new lives, and nothing held of old ones."""
        registry = self._stage.shared.registry
        changes = self._links.update(registry.entries())
        if any(isinstance(each, PeerGone | PeerReplaced) and each.peer == self._stage.under_test for each in changes):
            # Whoever says that it holds nothing of a dead process any more must not act on it later either.
            self.frames.clear()
        for peer in registry.keys:
            if peer != self.key:
                registry.mark_seen(self.key, peer, self._links.incarnation(peer) or registry.incarnation(peer))

    def send(self, peer: ProcessKey, frame: bytes) -> None:
        link = self._links.link(peer)
        assert link is not None, f"{self.key} has no link to {peer}"
        link.send(frame)

    def pump(self) -> None:
        for _, link in self._links.items():
            link.flush()
            self.frames += link.receive()

    def close(self) -> None:
        self._links.close()


class Stage:
    """Everything that the supervisor makes, and its end of the channel, for one forked process.

    `keys` are the processes that there are: the one under test, and those that the test plays.
    """

    def __init__(self, base: Path, keys: Sequence[ProcessKey], overrides: Sequence[tuple[str, str]] = ()) -> None:
        self.base = base
        self.keys = tuple(keys)
        # Sockets have short names, and pytest's directories long ones.
        self._sockets = tempfile.TemporaryDirectory()
        chosen = {
            "log.dirs": str(base / "data"),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "kafkad.metrics.listener": "127.0.0.1:0",
            "kafkad.runtime.dir": self._sockets.name,
            "kafkad.arena.bytes": str(8 << 20),
            "socket.request.max.bytes": str(1 << 20),
            "num.io.threads": str(self._count("worker")),
            "num.network.threads": str(self._count("network")),
            "log.cleaner.threads": "1",
            **dict(overrides),
        }
        self.config: BrokerConfig = load(None, list(chosen.items()))
        self.plugins = load_plugins(enabled=False)
        self.begin_broker()

    def _count(self, role: str) -> int:
        return max(1, sum(key.role == role for key in self.keys))

    def begin_broker(self) -> None:
        """A new supervisor: fresh memory and a fresh runtime directory, the same log directories."""
        self.resources = acquire_resources(self.config)
        self.shared = self.resources.shared
        self.runtime_dir = self.resources.runtime_dir
        self.directories = self.resources.log_directories
        self.zmq_context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.actors: dict[ProcessKey, Actor] = {}
        self.said: list[Message] = []
        self.under_test = self.keys[0]
        self._process = None
        self._channel: Channel | None = None
        for key in self.keys:
            self.shared.registry.begin_incarnation(key)

    def fork(self, key: ProcessKey, main: RoleMain) -> None:
        """Begin an incarnation of the process under test."""
        registry = self.shared.registry
        registry.set_state(key, ProcessState.STARTING)
        ours, theirs = channel_pair()
        context = ChildContext(
            key=key,
            incarnation=registry.incarnation(key),
            supervisor_pid=os.getpid(),
            shared=self.shared,
            config=self.config,
            plugins=self.plugins,
            runtime_dir=self.runtime_dir,
            channel=theirs,
            listeners=self.resources.listeners,
            endpoints=self.resources.endpoints,
            log_directories=self.directories,
            was_clean=self.resources.was_clean,
        )
        process = multiprocess.get_context("fork").Process(target=run_child, args=(context, main, ours.close))
        # As in the supervisor: the child must not free clients of the test, whose threads it does not have.
        gc.freeze()
        process.start()
        gc.unfreeze()
        theirs.close()
        self._process, self._channel, self.under_test = process, ours, key
        registry.set_pid(key, process.pid)
        self.said = []

    def play(self, *keys: ProcessKey) -> None:
        """Have the test be these processes."""
        for key in keys:
            self.actors[key] = Actor(self, key)
        self.tell_roster()

    def end_actor(self, key: ProcessKey) -> None:
        """That process dies."""
        self.actors.pop(key).close()
        self.shared.registry.begin_incarnation(key)
        self.shared.registry.set_state(key, ProcessState.DEAD)
        self.tell_roster()

    def tell_roster(self) -> None:
        """The supervisor's news, to everybody on stage."""
        for actor in self.actors.values():
            actor.follow()
        if self._channel is not None:
            self._channel.send(ProcessesChanged())

    def pump(self) -> None:
        for actor in self.actors.values():
            actor.pump()
        if self._channel is not None:
            try:
                self.said += self._channel.receive()
            except ChannelClosed:
                self._channel = None

    def until(self, condition: Callable[[], object], what: str) -> None:
        def met() -> object:
            self.pump()
            return condition()

        eventually(met, what=what)

    def until_ready(self) -> None:
        self.until(lambda: any(isinstance(each, Ready | Fatal) for each in self.said), "the process is ready")
        fatal = [each for each in self.said if isinstance(each, Fatal)]
        assert not fatal, fatal
        self.shared.registry.set_state(self.under_test, ProcessState.READY)

    def kill(self) -> None:
        """SIGKILL; reaped, and its next incarnation counted, but not told to anybody yet."""
        assert self._process is not None and self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()
        self._channel = None
        self.shared.registry.begin_incarnation(self.under_test)
        self.shared.registry.set_state(self.under_test, ProcessState.DEAD)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The process under test does nothing meanwhile."""
        assert self._process is not None and self._process.pid is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        yield
        os.kill(self._process.pid, signal.SIGCONT)

    def stop(self) -> Stopped:
        """In order; what it said."""
        assert self._process is not None and self._channel is not None
        self._channel.send(Stop(0))
        self.until(lambda: any(isinstance(each, Stopped) for each in self.said), "the process has stopped")
        self._process.join(WITHIN_S)
        assert self._process.exitcode == 0
        return next(each for each in self.said if isinstance(each, Stopped))

    def end_broker(self) -> None:
        if self._process is not None and self._process.is_alive():
            self.kill()
        for actor in self.actors.values():
            actor.close()
        self.zmq_context.term()
        self.resources.close()

    def close(self) -> None:
        self.end_broker()
        self._sockets.cleanup()
