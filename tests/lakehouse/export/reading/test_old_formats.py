"""Messages of magic 0 and 1, of brokers before Apache Kafka 0.11: one line says what they are."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad_lakehouse.cli.export import export
from tests.core.log.old_messages import old_messages
from tests.lakehouse.export.reading.test_log_directories import checkpoint, partition, plain

VALUES = [b"one", b"two", b"three" * 50]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize("before", [0, 5])
@pytest.mark.parametrize("options", [(), ("--isolation", "read_uncommitted"), ("--on-damage", "dlq")])
def test_messages_of_old_formats_are_named(
    tmp_path: Path, magic: int, before: int, options: Sequence[str], *, is_sealed: bool
) -> None:
    log_dir, out = tmp_path / "log", tmp_path / "table"
    batches = [*map(plain, range(before)), old_messages(magic, VALUES)]
    directory = partition(log_dir, "t-0", *batches)
    if is_sealed:
        (directory / f"{20:020d}.log").write_bytes(plain(20))
    checkpoint(log_dir, HIGH_WATERMARKS, p0=21 if is_sealed else before + 3)
    place = f"{directory}/{0:020d}.log"
    asked = ["--topic", "t", "--out", str(out), "--source", "files", "--log-dirs", str(log_dir)]
    done = CliRunner().invoke(export, ["run", *asked, "--bootstrap-server", "none", *options])
    assert (done.exit_code, done.stdout) == (1, "")
    (said,) = done.stderr.splitlines()
    assert f"{place} has a message of magic {magic} at byte {sum(map(len, batches[:-1]))} (offset 0)" in said
    assert not list(out.rglob("*.parquet"))
