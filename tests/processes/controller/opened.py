"""A controller that is opened on the log directories `one` and `two` of a folder, as at the start of a broker."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from kafkad.adapters.files.log_directory import write_partition_metadata
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.config import load
from kafkad.plugin_loading import load as load_plugins
from kafkad.processes.controller.startup import Opened, open_controller
from tests.one_thread import OneThreadBroker
from tests.processes.pieces import CONTROLLER, SMALL
from tests.processes.real_ports import PORTS


def make(directory: Path, topic: int = 7) -> None:
    """A partition with an empty log; `topic` is the number in its id."""
    directory.mkdir(parents=True)
    write_partition_metadata(directory, UUID(int=topic))
    (directory / f"{0:020d}.log").touch()


@contextmanager
def started(folder: Path) -> Iterator[Opened]:
    """A broker's controller, from its start to its death."""
    with tempfile.TemporaryDirectory() as runtime:
        settings = {**SMALL, "log.dirs": f"{folder}/one,{folder}/two", "kafkad.runtime.dir": runtime}
        broker = OneThreadBroker(PORTS, load(None, list(settings.items())), load_plugins(enabled=False))
        broker.take_resources()
        broker.registry.begin_incarnation(CONTROLLER)
        incarnation = broker.fork(CONTROLLER)
        opened = open_controller(incarnation.context, ControllerHandover(incarnation.context.table))
        try:
            yield opened
        finally:
            opened.store.close()
            broker.reap(incarnation)
            broker.release_resources()
