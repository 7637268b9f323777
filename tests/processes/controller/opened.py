"""A controller that is opened on the log directories `one` and `two` of a folder, as at the start of a broker."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from kafkad.adapters.files.log_directory import write_partition_metadata
from kafkad.adapters.links.supervision_channel import channel_pair
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.config import load
from kafkad.plugin_loading import load as load_plugins
from kafkad.processes.controller.startup import Opened, open_controller
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.supervisor.resources import take_resources
from tests.processes.pieces import CONTROLLER


def make(directory: Path, topic: int = 7) -> None:
    """A partition with an empty log; `topic` is the number in its id."""
    directory.mkdir(parents=True)
    write_partition_metadata(directory, UUID(int=topic))
    (directory / f"{0:020d}.log").touch()


@contextmanager
def started(folder: Path) -> Iterator[Opened]:
    """A broker's controller, from its start to its death."""
    with tempfile.TemporaryDirectory() as runtime:
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": f"{folder}/one,{folder}/two",
            "kafkad.runtime.dir": runtime,
            "kafkad.metrics.listener": "",
            "kafkad.arena.bytes": str(1 << 20),
            "socket.request.max.bytes": str(1 << 20),
        }
        config = load(None, list(settings.items()))
        resources = take_resources(config)
        resources.shared.registry.begin_incarnation(CONTROLLER)
        ours, theirs = channel_pair()
        context = ChildContext(
            key=CONTROLLER,
            incarnation=resources.shared.registry.incarnation(CONTROLLER),
            supervisor_pid=0,
            shared=resources.shared,
            config=config,
            plugins=load_plugins(enabled=False),
            runtime_dir=resources.runtime_dir,
            channel=theirs,
            listeners=[],
            endpoints=resources.endpoints,
            log_directories=resources.log_directories,
            was_clean=resources.was_clean,
        )
        opened = open_controller(context, ControllerHandover(context.table))
        try:
            yield opened
        finally:
            opened.store.close()
            ours.close()
            theirs.close()
            resources.close()
