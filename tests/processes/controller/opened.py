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
from kafkad.plugin_loading import load as load_plugins
from kafkad.processes.controller.events import ControllerEvents
from kafkad.processes.controller.startup import Opened, open_controller
from kafkad.processes.runtime.child import ChildContext
from kafkad.wire.processes.controller_messages import (
    DELTA,
    AdminReply,
    AutoCreated,
    ControllerMessage,
    unpack_message,
)
from tests.one_thread import OneThreadBroker
from tests.processes.pieces import CONTROLLER, NETWORK, SMALL, WORKER
from tests.processes.real_ports import PORTS


def make(directory: Path, topic: int = 7) -> None:
    """A partition with an empty log; `topic` is the number in its id."""
    directory.mkdir(parents=True)
    write_partition_metadata(directory, UUID(int=topic))
    (directory / f"{0:020d}.log").touch()


@contextmanager
def started(folder: Path) -> Iterator[Opened]:
    """A broker's controller, from its start to its death."""
    with forked({"log.dirs": f"{folder}/one,{folder}/two"}) as context:
        opened = open_controller(context, ControllerHandover(context.table))
        try:
            yield opened
        finally:
            opened.store.close()


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
    """The controller of a running broker; the other processes are played, their time too."""

    def __init__(self, opened: Opened, context: ChildContext, handover: ControllerHandover) -> None:
        self.registry = context.registry
        self.log_directories = context.log_directories
        self.sent: list[ControllerMessage] = []
        self._now_ms = 0
        self.events = ControllerEvents(context, handover, opened, self._send, self._now_ms)
        self.events.begin()
        for peer in (NETWORK, WORKER):
            self.registry.begin_incarnation(peer)
            self.events.peer_linked(peer)
        self.apply()

    def _send(self, _peer: ProcessKey, frame: bytes) -> bool:
        if frame[0] != DELTA:
            self.sent.append(unpack_message(frame))
        return True

    @property
    def replies(self) -> list[AdminReply | AutoCreated]:
        return [each for each in self.sent if isinstance(each, AdminReply | AutoCreated)]

    @property
    def topics(self) -> set[str]:
        return set(self.events._controller.image.topics)

    @property
    def is_idle(self) -> bool:
        deadline_ms = self.events.next_deadline_ms
        return deadline_ms is None or deadline_ms > self._now_ms

    def hear(self, peer: ProcessKey, message: ControllerMessage) -> None:
        self.events.handle(peer, message, self._now_ms)

    def turn(self, later_ms: int = 0) -> None:
        """One pass of the controller, so much later than the one before."""
        self._now_ms += later_ms
        self.events.tick(self._now_ms)

    def apply(self) -> None:
        """The others apply all metadata that they were sent."""
        for peer in (NETWORK, WORKER):
            self.registry.set_applied_version(peer, self.registry.metadata_version)

    def run_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(1_000):
            if condition():
                return
            self.turn()
            self.apply()
        raise AssertionError("it has not come to that")


@contextmanager
def events(folder: Path) -> Iterator[PlayedEvents]:
    with forked({"log.dirs": f"{folder}/one,{folder}/two"}) as context:
        handover = ControllerHandover(context.table)
        opened = open_controller(context, handover)
        try:
            yield PlayedEvents(opened, context, handover)
        finally:
            opened.store.close()
