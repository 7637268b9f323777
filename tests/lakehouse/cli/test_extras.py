"""What an export needs and is not installed is named with the command that installs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.brokers.processes import WITHIN_S
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from tests.lakehouse.export.object_store import BUCKET, settings
from tests.lakehouse.export.reading.test_log_directories import checkpoint, partition, plain

AVRO = '{"type": "record", "name": "R", "fields": []}'


@pytest.mark.parametrize(
    ("module", "extra", "options"),
    [
        ("pyarrow", "export", []),
        ("obstore", "s3", ["--out", f"s3://{BUCKET}/t"]),
        ("obstore", "s3", ["--out", f"s3a://{BUCKET}/t", "--format", "delta"]),
        ("deltalake", "delta", ["--format", "delta"]),
        ("pyiceberg", "iceberg", ["--format", "iceberg"]),
        ("fastavro", "avro", ["--value", "avro", "--schema-file", "SCHEMA"]),
        ("google", "protobuf", ["--value", "protobuf", "--schema-file", "SCHEMA"]),
        ("pyspark", "spark", ["--engine", "spark"]),
    ],
)
def test_what_is_not_installed_is_one_line_with_the_command(
    module: str, extra: str, options: list[str], tmp_path: Path
) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / f"{module}.py").write_text(f"raise ModuleNotFoundError('No module', name='{module}')\n")
    schema = tmp_path / "schema"
    schema.write_text(AVRO)
    partition(tmp_path / "log", "t-0", plain(0))
    checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=1)
    words = ["--topic", "t", "--out", str(tmp_path / "t"), "--source", "files", "--log-dirs", str(tmp_path / "log")]
    words += ["--bootstrap-server", "none", *(str(schema) if each == "SCHEMA" else each for each in options)]
    # Nobody listens there: what is missing is told before a store is asked.
    done = subprocess.run(
        [sys.executable, "-m", "kafkad", "export", "run", *words],
        env={**os.environ, **settings(1), "PYTHONPATH": str(tmp_path / "without")},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert done.stderr.endswith(f"is not installed: pip install 'kafkad[{extra}]'\n")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
