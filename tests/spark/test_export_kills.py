"""Exactly once under kill -9: `export_kill_runs` of all engines, sources and kinds of tables.

Each has `local_export_kills` or `spark_export_kills`, with `kill_seed`.
"""

from itertools import product
from pathlib import Path

import pytest

from tests.amounts import amount
from tests.spark.export_kills import WITHIN_S, run

_SEED = amount("kill_seed")
_KILLS = {"local": amount("local_export_kills"), "spark": amount("spark_export_kills")}
_FIRST = [
    ("local", "broker", "delta"),
    ("local", "files", "parquet"),
    ("local", "broker", "iceberg"),
    ("spark", "files", "parquet"),
    ("spark", "broker", "delta"),
]
"""Both engines, both sources and each kind of table are among these."""
_ALL = dict.fromkeys([*_FIRST, *product(_KILLS, ("broker", "files"), ("parquet", "delta", "iceberg"))])
_RUNS = [(*each, _KILLS[each[0]]) for each in _ALL][: amount("export_kill_runs")]


@pytest.mark.timeout(WITHIN_S * (1 + max(kills for *_, kills in _RUNS)))
@pytest.mark.parametrize(("engine", "source", "table", "kills"), _RUNS)
def test_each_committed_record_is_there_once_whoever_is_killed(
    tmp_path: Path, engine: str, source: str, table: str, kills: int
) -> None:
    done = run(tmp_path, engine=engine, source=source, table=table, kills=kills, seed=_SEED)
    print(done)
    assert done.committed and done.aborted and sum(done.kills.values()) == kills
