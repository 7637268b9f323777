"""A worker that deletes a topic and is killed before any step of it, or can't rename a directory."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kafkad.core.controller.startup.reconciliation import Reconciliation, reconcile
from kafkad.processes.controller.log_dirs import scan
from kafkad.processes.worker import partitions
from kafkad.wire.processes.controller_messages import Applied, DirectoriesRemoved, RemovalFailed
from tests.processes.pieces import TOPIC, WORKER, Pieces
from tests.tools.mortal_process import Died, MortalProcess
from tests.tools.raw_requests import batch, produce, read_produced

OTHER = "other"
PASSES = 50


@pytest.fixture
def made(make_pieces: Callable[..., Pieces]) -> Callable[[], Pieces]:
    def make() -> Pieces:
        pieces = make_pieces(log_segment_delete_delay_ms="0")
        pieces.create_topic(OTHER)
        pieces.run_until_online(OTHER)
        pieces.run_until_known()
        client = pieces.connect()
        for at in ((TOPIC, 0), (TOPIC, 1), (OTHER, 0)):
            assert read_produced(client.ask(produce({at: batch()})))[at].error == 0
        return pieces

    return make


def until_removed(pieces: Pieces, mortal: MortalProcess) -> None:
    home = Path(pieces.config.log_dirs.log_dirs[0])
    with suppress(Died):
        pieces.run(lambda: mortal.is_dead or not list(home.glob(f"{TOPIC}-*")), "it is removed, or the worker dies")


def next_start(pieces: Pieces, topic_id: object) -> Reconciliation:
    """What the controller of the next start makes of the log directory, in which the deletion is recorded."""
    home = Path(pieces.config.log_dirs.log_dirs[0])
    return reconcile({}, {TOPIC: topic_id}, scan(0, home, lambda *_: True))  # type: ignore[dict-item]


def deleted(pieces: Pieces) -> list[int]:
    return [slot for each in pieces.heard if isinstance(each, DirectoriesRemoved) for slot in each.slots]


def test_wherever_it_is_stopped_the_next_start_knows_what_to_delete(
    made: Callable[[], Pieces], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    is_dead = True
    while is_dead:
        pieces = made()
        topic_id = pieces.image.topics[TOPIC].id
        home = Path(pieces.config.log_dirs.log_dirs[0])
        kept = {path.name: path.read_bytes() for path in pieces.directory(OTHER).iterdir()}
        pieces.delete_topic(TOPIC)
        with monkeypatch.context() as patch:
            mortal = MortalProcess(patch, steps)
            until_removed(pieces, mortal)
            pieces.kill(WORKER)
            is_dead = mortal.is_dead
        found = next_start(pieces, topic_id)
        assert [each.name for each in found.adopted] == [OTHER]
        assert found.stray == []
        left = {each.name for each, *_ in found.deleting} | {each.name for each in found.leftovers}
        assert left == {path.name for path in home.glob(f"{TOPIC}-*")}
        # Those that were reported have lost their names.
        assert len(found.deleting) + len(deleted(pieces)) <= 2
        assert {path.name: path.read_bytes() for path in pieces.directory(OTHER).iterdir()} == kept
        steps += 1
    assert steps > 10


def test_a_deletion_is_not_over_before_the_directory_has_lost_its_name(
    made: Callable[[], Pieces], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start would take it over as a topic: the controller has forgotten that it was deleted."""
    monkeypatch.setattr(partitions, "RENAME_RETRY_MS", 0)
    pieces = made()
    slots = [row.slot for row in pieces.image.topics[TOPIC].partitions]
    rename = os.rename

    def fails(old: str | Path, new: str | Path) -> None:
        if str(old).endswith(f"{TOPIC}-1"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fails)
        pieces.delete_topic(TOPIC)
        pieces.run(lambda: deleted(pieces), "the other partition is reported")
        for _ in range(PASSES):
            pieces.turn()
        assert deleted(pieces) == slots[:1]
    pieces.run(lambda: deleted(pieces) == slots, "it could be renamed at last")
    assert not pieces.directory(TOPIC, 1).exists()


@pytest.mark.parametrize(("code", "is_full"), [(errno.EIO, False), (errno.ENOSPC, True)])
def test_a_deletion_counts_as_applied_when_every_directory_was_tried_and_failures_are_said_before(
    made: Callable[[], Pieces], monkeypatch: pytest.MonkeyPatch, code: int, is_full: bool
) -> None:
    """The controller of the cluster is then told what is deleted."""
    monkeypatch.setattr(partitions, "STEP_S", -1.0)
    pieces = made()
    _, last = pieces.image.topics[TOPIC].partitions
    rename = os.rename

    def fails(old: str | Path, new: str | Path) -> None:
        if str(old).endswith(f"{TOPIC}-1"):
            raise OSError(code, os.strerror(code))
        rename(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fails)
        pieces.heard.clear()
        pieces.delete_topic(TOPIC, to=(WORKER,))
        version = pieces.image.version
        pieces.run(lambda: Applied(version) in pieces.heard, "the deletion is applied")
    before = pieces.heard[: pieces.heard.index(Applied(version))]
    assert [(each.slot, each.is_full) for each in before if isinstance(each, RemovalFailed)] == [(last.slot, is_full)]
