"""An export that is interrupted anywhere leaves the table as before or as after its commit.

At a dozen of the lines of each kind of table, and at `crash_point_density` times as many.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.amounts import amount

_DENSITY = amount("crash_point_density")
WITHIN_S = 600 * _DENSITY
_STEPS = {
    "parquet": 37,
    "parquet-s3": 41,
    "parquet-latest": 53,
    "delta": 43,
    "delta-s3": 67,
    "delta-latest": 47,
    "iceberg": 59,
    "iceberg-s3": 97,
    "iceberg-latest": 61,
    "parquet-merged": 23,
    "delta-merged": 29,
    "iceberg-merged": 37,
}


@pytest.mark.timeout(WITHIN_S)
@pytest.mark.parametrize("kind", _STEPS)
def test_an_export_that_is_killed_at_some_line_is_whole_or_not_there(kind: str, tmp_path: Path) -> None:
    # In a process of its own: those that it forks must not have threads of the libraries.
    step = str(max(1, _STEPS[kind] // _DENSITY))
    command = [sys.executable, "-m", "tests.lakehouse.export.crash_points", kind, str(tmp_path), step]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3
