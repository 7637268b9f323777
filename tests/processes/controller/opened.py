"""A controller that is opened on the log directories `one` and `two` of a folder, as at the start of a broker, and one
that runs.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from kafkad.adapters.files.log_directory import write_partition_metadata
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.config import load
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.plugin_loading import load as load_plugins
from kafkad.processes.controller import store_thread
from kafkad.processes.controller.assembly import Opening
from kafkad.processes.controller.controller_role import ControllerRole
from kafkad.processes.controller.opening import OpenedHost, open_host
from kafkad.processes.controller.store.embedded_session import EmbeddedSession
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.wire.processes.controller_messages import (
    DELTA,
    AdminReply,
    AutoCreated,
    ControllerMessage,
    unpack_message,
)
from tests.one_thread import OneThreadBroker, installed
from tests.processes.pieces import CONTROLLER, NETWORK, SMALL, WORKER
from tests.processes.real_ports import PORTS
from tests.simulation.ports import AtOnce


def make(directory: Path, topic: int = 7) -> None:
    """A partition with an empty log; `topic` is the number in its id."""
    directory.mkdir(parents=True)
    write_partition_metadata(directory, UUID(int=topic))
    (directory / f"{0:020d}.log").touch()


@contextmanager
def started(folder: Path) -> Iterator[OpenedHost]:
    """A broker's controller process, from its start to its death."""
    with forked({"log.dirs": f"{folder}/one,{folder}/two"}) as context:
        opened = opened_on(context)
        try:
            yield opened
        finally:
            opened.store.close()


def opened_on(context: ChildContext) -> OpenedHost:
    return open_host(context, ControllerHandover(context.table), EmbeddedSession(context))


@contextmanager
def forked(settings: Mapping[str, str]) -> Iterator[ChildContext]:
    """What the controller process of a broker with these settings gets."""
    with tempfile.TemporaryDirectory() as runtime:
        every = {**SMALL, "kafkad.runtime.dir": runtime, **settings}
        broker = OneThreadBroker(PORTS, load(None, list(every.items())), load_plugins(enabled=False))
        broker.acquire_resources()
        broker.registry.begin_incarnation(CONTROLLER)
        incarnation = broker.fork(CONTROLLER)
        try:
            yield incarnation.context
        finally:
            broker.reap(incarnation)
            broker.release_resources()


class PlayedEvents:
    """The controller process of a running broker; the other processes are played, their time too."""

    def __init__(self, context: ChildContext) -> None:
        self.registry = context.registry
        self.log_directories = context.log_directories
        self.sent: list[ControllerMessage] = []
        self._now_ms = 0
        self._loop = EventLoop()
        opening = Opening(context, self._loop, ControllerHandover(context.table))
        while not opening.is_done:
            self._loop.run_once(0)
        self.events = opening.events(self._send)
        self.events.begin()
        for peer in (NETWORK, WORKER):
            self.registry.begin_incarnation(peer)
            self.events.peer_linked(peer)
        self.run_until(lambda: self.controller is not None)

    @property
    def controller(self) -> ElectedController | None:
        """Elected when the broker is registered."""
        role = self.events._elected
        assert isinstance(role, ControllerRole)
        return role._controller._controller if role.is_elected else None

    def _send(self, _peer: ProcessKey, frame: bytes) -> bool:
        if frame[0] != DELTA:
            self.sent.append(unpack_message(frame))
        return True

    @property
    def replies(self) -> list[AdminReply | AutoCreated]:
        return [each for each in self.sent if isinstance(each, AdminReply | AutoCreated)]

    @property
    def topics(self) -> set[str]:
        return set(self.events.image.topics)

    @property
    def is_idle(self) -> bool:
        deadline_ms = self.events.next_deadline_ms
        return deadline_ms is None or deadline_ms > self._now_ms

    def hear(self, peer: ProcessKey, message: ControllerMessage) -> None:
        self.events.handle(peer, message, self._now_ms)

    def turn(self, later_ms: int = 0) -> None:
        """One pass of the controller, so much later than the one before."""
        self._now_ms += later_ms
        self._loop.run_once(0)
        self.events.tick(self._now_ms)

    def apply(self) -> None:
        """The others apply all metadata that they were sent."""
        for peer in (NETWORK, WORKER):
            self.registry.set_applied_version(peer, self.registry.metadata_version)

    def close(self) -> None:
        """It dies, unless it has stopped."""
        self.events._membership.store.close()

    def run_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(1_000):
            if condition():
                return
            self.turn()
            self.apply()
        raise AssertionError("it has not come to that")


@contextmanager
def events(folder: Path) -> Iterator[PlayedEvents]:
    """What the store's thread does is done at once; the loop learns of it in its next pass."""
    threads = [(store_thread, "HelperThreads", AtOnce)]
    with installed(threads), forked({"log.dirs": f"{folder}/one,{folder}/two"}) as context:
        played = PlayedEvents(context)
        try:
            yield played
        finally:
            played.close()
