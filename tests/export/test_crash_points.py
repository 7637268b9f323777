"""A commit that is interrupted anywhere leaves the table as before or as after it."""

import subprocess
import sys
from pathlib import Path

import pytest

WITHIN_S = 600


@pytest.mark.timeout(WITHIN_S)
@pytest.mark.parametrize(
    ("kind", "step"),
    [("parquet", 5), ("parquet-s3", 12), ("delta", 9), ("iceberg", 25), ("parquet-latest", 15), ("iceberg-latest", 30)],
)
def test_a_commit_that_is_killed_at_some_line_is_whole_or_not_there(kind: str, step: int, tmp_path: Path) -> None:
    # Every line takes minutes. In a process of its own: those that it forks must not have threads of the libraries.
    command = [sys.executable, "-m", "tests.export.crash_points", kind, str(tmp_path), str(step)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3
