"""Exactly once under kill -9. KAFKAD_EXPORT_KILLS says how many kills each of the runs has, KAFKAD_KILL_SEED which.

Without them there are a few, of both engines, both sources and each kind of table.
"""

import os
from itertools import product
from pathlib import Path

import pytest

from tests.spark.export_kills import WITHIN_S, run

_ASKED = os.environ.get("KAFKAD_EXPORT_KILLS")
_SEED = int(os.environ.get("KAFKAD_KILL_SEED", "1"))
_ENGINES, _SOURCES, _TABLES = ("local", "spark"), ("broker", "files"), ("parquet", "delta", "iceberg")
_FEW = [
    ("local", "broker", "delta", 4),
    ("local", "files", "parquet", 4),
    ("local", "broker", "iceberg", 4),
    ("spark", "files", "parquet", 2),
    ("spark", "broker", "delta", 2),
]
_RUNS = _FEW if _ASKED is None else [(*each, int(_ASKED)) for each in product(_ENGINES, _SOURCES, _TABLES)]


@pytest.mark.timeout(WITHIN_S * (1 + max(kills for *_, kills in _RUNS)))
@pytest.mark.parametrize(("engine", "source", "table", "kills"), _RUNS)
def test_each_committed_record_is_there_once_whoever_is_killed(
    tmp_path: Path, engine: str, source: str, table: str, kills: int
) -> None:
    done = run(tmp_path, engine=engine, source=source, table=table, kills=kills, seed=_SEED)
    print(done)
    assert done.committed and done.aborted and sum(done.kills.values()) == kills
