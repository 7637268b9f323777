"""A broker that starts after it died in the midst of a deletion, and loses its power right after that start."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from kafkad.adapters.files.log_directory import write_partition_metadata
from kafkad.adapters.links.supervision_channel import channel_pair
from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.config import load
from kafkad.core.controller.store.nodes import DELETIONS
from kafkad.plugin_loading import load as load_plugins
from kafkad.processes.controller.startup import Opened, open_controller
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.supervisor.resources import take_resources
from tests.processes.pieces import CONTROLLER

PLACES = ("one/orders-0", "two/orders-1")


class VolatileNames:
    """What was renamed or removed in a log directory is back after a loss of power, unless it was synced since."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._gone: set[str] = set()
        self._fsync = os.fsync
        patch.setattr(os, "fsync", self._synced)

    def removed(self, place: str) -> None:
        shutil.rmtree(self._folder / place)
        self._gone.add(place)

    def _synced(self, descriptor: int) -> None:
        self._fsync(descriptor)
        synced = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self._gone = {place for place in self._gone if (self._folder / place).parent != synced}

    def lose_power(self) -> None:
        for place in self._gone:
            make(self._folder / place)


def make(directory: Path) -> None:
    directory.mkdir(parents=True)
    write_partition_metadata(directory, UUID(int=7))
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


def test_a_deletion_that_is_forgotten_at_the_start_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directories were removed by a life that died before it synced their names."""
    names = VolatileNames(tmp_path, monkeypatch)
    for place in PLACES:
        make(tmp_path / place)
    with started(tmp_path) as first:
        assert [topic.name for topic in first.found.adopted] == ["orders"]
        first.controller.delete_topics(["orders"])
        for place in PLACES:
            names.removed(place)
    with started(tmp_path) as second:
        assert second.store.children(DELETIONS) == []
    names.lose_power()
    with started(tmp_path) as third:
        assert third.found.adopted == []
        assert "orders" not in third.controller.image.topics
