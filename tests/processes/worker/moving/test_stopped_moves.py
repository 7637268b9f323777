"""A worker that dies before any change of a name while it moves a partition: its next life ends the move, and whoever
starts a whole broker there finds the partition once, with all its records.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.processes.controller.interrupted_moves import without_sources
from kafkad.processes.controller.log_dirs import scan
from tests.processes.pieces import TOPIC, WORKER, Pieces
from tests.processes.worker.moving.test_moves import ONE, TWO, ask, filled, moved, names, read, until_moved, write
from tests.tools.mortal_process import Died, MortalProcess


@contextmanager
def started(folder: Path) -> Iterator[Pieces]:
    pieces = Pieces(folder, {"log.dirs": ",".join(str(folder / name) for name in ("one", "two", "three"))})
    try:
        pieces.start()
        yield pieces
    finally:
        pieces.close()


def segments_where_a_start_finds_them(pieces: Pieces) -> dict[str, bytes]:
    """In the one directory that counts."""
    homes = [LogDirectory.offline(Path(path)) for path in pieces.config.log_dirs.log_dirs]
    seen = [each for at, home in enumerate(homes) for each in scan(at, home.path, lambda *_: True)]
    kept = without_sources(seen, homes, is_first_incarnation=False)
    (found,) = (each for each in kept if each.name == f"{TOPIC}-0")
    return {path.name: path.read_bytes() for path in (homes[found.log_dir].path / found.name).glob("*.log")}


def until_moved_or_dead(pieces: Pieces, mortal: MortalProcess) -> None:
    def is_over() -> bool:
        is_left = moved(pieces, TWO) and not names(pieces, ONE)
        return mortal.is_dead or is_left

    with suppress(Died):
        pieces.run(is_over, "the partition is moved, or its worker dies")


def test_a_move_that_is_stopped_before_any_step_is_ended_by_the_next_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, is_dead = 0, True
    while is_dead:
        with started(tmp_path / str(step)) as pieces:
            client = pieces.connect()
            values = filled(pieces, client)
            written = segments_where_a_start_finds_them(pieces)
            ask(pieces, TWO)
            with monkeypatch.context() as patch:
                mortal = MortalProcess(patch, step)
                until_moved_or_dead(pieces, mortal)
                pieces.kill(WORKER)
                is_dead = mortal.is_dead
            assert segments_where_a_start_finds_them(pieces) == written
            pieces.begin(WORKER)
            until_moved(pieces, TWO)
            pieces.run(lambda: f"{TOPIC}-0" not in names(pieces, ONE), "the old name is free")
            pieces.run_until_online()
            write(client, "after")
            assert read(client, 7) == [*values, "after"]
            assert [name for name in names(pieces, TWO) if not name.endswith("-delete")] == [f"{TOPIC}-0"]
        step += 1
    assert step > 10
