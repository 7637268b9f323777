"""A run that finds that another export has committed its records leaves no file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad_lakehouse.export.engines.local import run_here
from kafkad_lakehouse.export.preparation import prepare
from kafkad_lakehouse.export.problems import CommitConflict
from kafkad_lakehouse.export.request import KEEP_ALL, KEEP_LATEST, ExportRequest
from kafkad_lakehouse.export.run import run_export
from kafkad_lakehouse.export.tables import open_dead_letters, open_sink
from kafkad_lakehouse.export.values.format import ValueFormat
from tests.lakehouse.export.from_files import from_files
from tests.lakehouse.export.reading.test_log_directories import checkpoint, partition

SCHEMA = b'{"properties": {"n": {"type": "integer"}}}'


def begun(asked: ExportRequest) -> Callable[[], object]:
    """A run that has looked at its table."""
    sink = open_sink(asked)
    return partial(run_export, prepare(asked, sink), sink, lambda tasks: run_here(tasks, 1), lambda _file: None)


def stored(asked: ExportRequest) -> set[str]:
    out = Path(asked.out)
    found = [(folder, path) for folder in (out, Path(f"{out}__dlq")) for path in folder.rglob("t-*.parquet")]
    return {f"{folder.name}/{path.relative_to(folder)}" for folder, path in found}


def of_tables(asked: ExportRequest) -> set[str]:
    named = Path(asked.out).name
    letters = {f"{named}__dlq/{path}" for path in open_dead_letters(asked).files()}
    return {f"{named}/{path}" for path in open_sink(asked).files()} | letters


@pytest.mark.parametrize("table", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("keeps", [KEEP_ALL, KEEP_LATEST])
@pytest.mark.parametrize("commits_before", [0, 1])
def test_a_run_that_lost_a_race_leaves_nothing(tmp_path: Path, table: str, keeps: str, commits_before: int) -> None:
    values = [b'{"n": 1}', b"rubbish"] * 6
    batches = [build_batch([NewRecord(1, b"%d" % at, each)], base_offset=at) for at, each in enumerate(values)]
    partition(tmp_path / "log", "t-0", *batches)
    asked = from_files(
        tmp_path,
        format=table,
        keeps=keeps,
        formats=(ValueFormat(kind="json", schema=SCHEMA),) if keeps == KEEP_ALL else (),
    )
    for end in [6, 12][1 - commits_before :]:
        checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=end)
        winner, loser = begun(asked), begun(asked)
        winner()
        before = stored(asked)
        with pytest.raises(CommitConflict):
            loser()
        assert stored(asked) == before
    if keeps == KEEP_ALL:
        assert stored(asked) == of_tables(asked)
    # Nor is there a folder of a run that has ended.
    assert not list(Path(asked.out, "_tmp").glob("*"))
