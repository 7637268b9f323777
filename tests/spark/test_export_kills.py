"""Exactly once under kill -9; `python -m tests.spark.export_kills` makes longer runs."""

from pathlib import Path

import pytest

from tests.spark.export_kills import run


@pytest.mark.parametrize(
    ("engine", "source", "table", "kills"),
    [
        ("local", "broker", "delta", 4),
        ("local", "files", "parquet", 4),
        ("local", "broker", "iceberg", 4),
        ("spark", "files", "parquet", 3),
    ],
)
def test_each_committed_record_is_there_once_whoever_is_killed(
    tmp_path: Path, engine: str, source: str, table: str, kills: int
) -> None:
    done = run(tmp_path, engine=engine, source=source, table=table, kills=kills, seed=kills)
    assert done.committed and done.aborted
