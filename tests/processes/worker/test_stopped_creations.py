"""A worker that dies before any step in which it makes the directory of a new partition, in real files."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest

from kafkad.adapters.files.log_directory import write_partition_metadata
from kafkad.core.controller.startup.reconciliation import ReconciledTopic, reconcile
from kafkad.core.log.recovery.checkpoints import parse_partition_metadata
from kafkad.processes.controller.log_dirs import scan
from tests.processes.pieces import WORKER, Pieces
from tests.tools.mortal_process import CHANGES, Died, MortalProcess
from tests.tools.raw_requests import batch, fetch, produce, read_fetched, read_produced

NEW = "new"
STEPS = (*CHANGES, "open", "write", "pwritev")


def has_metadata(directory: Path, topic_id: UUID) -> bool:
    return parse_partition_metadata((directory / "partition.metadata").read_text()) == topic_id


def check_takes_records(pieces: Pieces) -> None:
    client = pieces.connect()
    at = (NEW, 0)
    produced = read_produced(client.ask(produce({at: batch(3)})))[at]
    assert (produced.error, produced.base_offset) == (0, 0)
    found = read_fetched(client.ask(fetch({at: 0})))[at]
    assert (found.error, found.high_watermark) == (0, 3)


def test_a_creation_that_is_stopped_before_any_step_is_ended_by_the_next_life(
    make_pieces: Callable[..., Pieces], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, is_dead = 0, True
    while is_dead:
        pieces = make_pieces()
        pieces.create_topic(NEW)
        topic_id = pieces.image.topics[NEW].id
        directory = pieces.directory(NEW)
        with monkeypatch.context() as patch:
            mortal = MortalProcess(patch, steps, STEPS)
            with suppress(Died):
                pieces.run_until_online(NEW)
            pieces.kill(WORKER)
            is_dead = mortal.is_dead
        # Apache Kafka takes the whole log directory offline if there is one without content.
        assert not (directory / "partition.metadata").exists() or has_metadata(directory, topic_id)
        home = directory.parent
        topics = {name: ReconciledTopic(topic.id, 2, frozenset()) for name, topic in pieces.image.topics.items()}
        found = reconcile(topics, {}, scan(0, home, lambda *_: True))
        assert (found.adopted, found.stray, found.set_aside) == ([], [], [])
        pieces.begin(WORKER)
        pieces.run_until_online(NEW)
        pieces.run_until_known()
        assert has_metadata(directory, topic_id)
        check_takes_records(pieces)
        assert not list(directory.glob("*.tmp"))
        steps += 1
    # The directory, its topic id in three steps, and the three files of the first segment.
    assert steps > 7


@pytest.mark.parametrize("left", ["nothing", "a name", "an empty file"])
def test_what_a_loss_of_power_took_of_a_new_directory_is_made_again(pieces: Pieces, left: str) -> None:
    pieces.kill(WORKER)
    pieces.create_topic(NEW)
    directory = pieces.directory(NEW)
    directory.mkdir()
    if left != "nothing":
        write_partition_metadata(directory, UUID(int=7))
        os.truncate(directory / "partition.metadata", 0)
    if left == "an empty file":
        (directory / f"{0:020d}.log").touch()
    pieces.begin(WORKER)
    pieces.run_until_online(NEW)
    pieces.run_until_known()
    assert has_metadata(directory, pieces.image.topics[NEW].id)
    check_takes_records(pieces)
