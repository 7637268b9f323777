"""A compacted partition is to be moved while a swap is begun: nothing is copied that the swap would still replace."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes.pieces import Pieces
from tests.processes.worker.moving.test_moves import TWO, ask, names, owned_of, until_moved
from tests.processes.worker.played_cleaner import Cleaner
from tests.processes.worker.test_slow_swaps import SlowDirectory, begin, begun_files, read

PASSES = 20


@pytest.fixture
def pieces(make_pieces: Callable[..., Pieces], tmp_path: Path) -> Pieces:
    log_dirs = ",".join(str(tmp_path / name) for name in ("one", "two", "three"))
    return make_pieces(log_dirs=log_dirs, log_cleanup_policy="compact")


@pytest.fixture
def cleaner(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cleaner]:
    played = Cleaner(pieces, monkeypatch)
    yield played
    played.close()


@pytest.fixture
def disk(pieces: Pieces, cleaner: Cleaner, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDirectory]:
    disk = SlowDirectory(monkeypatch)
    yield disk
    disk.let_through(1000)


def test_the_copy_begins_when_the_swap_was_given_up(pieces: Pieces, cleaner: Cleaner, disk: SlowDirectory) -> None:
    """A worker that dies before would finish the swap in its next life, and take the copy of what was there for it."""
    client = pieces.connect()
    begin(pieces, cleaner, client, disk)
    assert begun_files(pieces)
    ask(pieces, TWO)
    pieces.run(lambda: owned_of(pieces).is_moving, "the worker knows")
    for _ in range(PASSES):
        pieces.turn()
    assert begun_files(pieces)
    assert names(pieces, TWO) == []
    disk.let_through(1000)
    assert not cleaner.swapped()
    until_moved(pieces, TWO)
    assert read(client, 4) == ["a1", "b1", "a2", "a3"]
    assert begun_files(pieces) == []
