"""A broker that starts after it died in the midst of a deletion, and loses its power right after that start."""

import os
import shutil
from pathlib import Path

import pytest

from kafkad.core.controller.startup.term import claim
from kafkad.core.controller.store.nodes import DELETIONS
from kafkad.core.controller.store.tree import MetadataTree
from tests.processes.controller.opened import events, make, started

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


def test_a_deletion_that_is_forgotten_at_the_start_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directories were removed by a life that died before it synced their names."""
    names = VolatileNames(tmp_path, monkeypatch)
    for place in PLACES:
        make(tmp_path / place)
    with started(tmp_path) as first:
        topic = first.hosting.image.topics["orders"]
        MetadataTree(first.store, claim(first.store, 1, 0)).record_deletions([("orders", topic.id, 2)])
        for place in PLACES:
            names.removed(place)
    with events(tmp_path) as second:
        second.run_until(lambda: second.events._membership.store.children(DELETIONS) == [])
    names.lose_power()
    with started(tmp_path) as third:
        assert "orders" not in third.hosting.image.topics
