"""`kafkad export run` of segment files, without a broker: rounds and their end, what is refused, how files are divided.

Rounds are processes of their own, which get signals.
"""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import zstandard
from click.testing import CliRunner, Result
from pyiceberg.catalog import load_catalog

from bench.brokers.processes import WITHIN_S, eventually, is_alive, process_tree
from kafkad.cli import main
from kafkad.core.log.records.batch import Codec, read_header
from kafkad.core.log.records.compression import MAX_DECOMPRESSED_BYTES
from kafkad.core.log.records.record import NewRecord, build_batch, seal_batch
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from tests.lakehouse.export.reading.test_log_directories import checkpoint, partition, plain

TIMES_MS = (1, 3_599_999, 3_600_000, 86_400_000)
MINUTES_AT_1_KIB_A_SECOND = 500_000


class Lake:
    """The topic t of a log directory, and the folder of its table."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.out = folder / "table"

    def words(self, *options: str) -> list[str]:
        asked = ["export", "run", "--topic", "t", "--out", str(self.out), "--bootstrap-server", "none"]
        return [*asked, "--source", "files", "--log-dirs", str(self.log), *options]

    def run(self, *options: str) -> Result:
        return CliRunner().invoke(main, self.words(*options), catch_exceptions=False)

    def records(self) -> int:
        return sum(pq.ParquetFile(path).metadata.num_rows for path in self.out.rglob("*.parquet"))

    @contextmanager
    def running(self, *options: str) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "kafkad", *self.words(*options)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture
def of_minutes(lake: Lake) -> Lake:
    """Its first partition is read at once, the others are not when they are read slowly."""
    partition(lake.log, "t-0", plain(0))
    for number in (1, 2):
        partition(lake.log, f"t-{number}", build_batch([NewRecord(1, None, bytes(MINUTES_AT_1_KIB_A_SECOND))]))
    checkpoint(lake.log, HIGH_WATERMARKS, p0=1, p1=1, p2=1)
    return lake


def test_rounds_go_on_until_sigterm(lake: Lake) -> None:
    partition(lake.log, "t-0", *map(plain, range(130)))
    partition(lake.log, "t-1", *map(plain, range(100)))
    checkpoint(lake.log, HIGH_WATERMARKS, p0=100, p1=100)
    with lake.running("--every", "1s", "--jobs", "2", "--json") as rounds:
        assert rounds.stdout is not None and rounds.stderr is not None
        assert json.loads(rounds.stdout.readline())["records"] == 200
        checkpoint(lake.log, HIGH_WATERMARKS, p0=130, p1=100)
        seen = 200
        while seen < 230:
            line = rounds.stdout.readline()
            assert line, rounds.stderr.read()
            seen += json.loads(line)["records"]
        rounds.send_signal(signal.SIGTERM)
        _, said = rounds.communicate(timeout=WITHIN_S)
    assert (rounds.returncode, said) == (0, "")
    assert lake.records() == 230


def test_a_round_that_is_under_way_at_sigterm_leaves_nothing(of_minutes: Lake) -> None:
    with of_minutes.running("--every", "1h", "--max-bytes-per-sec", "1KiB") as rounds:
        eventually(lambda: list(of_minutes.out.rglob("*.complete")), what="a file is written")
        rounds.send_signal(signal.SIGTERM)
        assert rounds.communicate(timeout=WITHIN_S) == ("", "")
    assert rounds.returncode == 0
    assert [path for path in of_minutes.out.rglob("*") if path.is_file()] == []


def test_the_processes_of_a_run_that_was_killed_end(of_minutes: Lake) -> None:
    with of_minutes.running("--every", "1h", "--jobs", "2", "--max-bytes-per-sec", "1KiB") as run:
        eventually(lambda: list(of_minutes.out.rglob("*.complete")), what="a file is written")
        processes = process_tree(run.pid)
        assert len(processes) > 2, processes
        run.kill()
        run.communicate(timeout=WITHIN_S)
    eventually(lambda: not any(map(is_alive, processes)), what=f"these have ended: {processes}")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--log-dirs", "/usr"], 1, "no partition of topic 't'"),
        (["--out", "wind://mill/table"], 1, "can't be used"),
        (["--out", "/proc/table"], 1, "can't be written"),
        (["--format", "iceberg", "--table", "orders"], 2, "--table: expected NAMESPACE.NAME, found 'orders'"),
        (["--value", "json"], 2, "needs either --schema-file or --schema-registry"),
        (["--value", "json", "--schema-file", "/nowhere"], 2, "/nowhere can't be read"),
        (["--value", "avro", "--schema-file", "/dev/null"], 1, "the Avro schema can't be read"),
        (["--value", "avro", "--schema-registry", "nowhere"], 1, "not an address of a schema registry"),
    ],
)
def test_what_can_not_be_exported_is_one_line(lake: Lake, options: list[str], code: int, said: str) -> None:
    partition(lake.log, "t-0", plain(0))
    checkpoint(lake.log, HIGH_WATERMARKS, p0=1)
    done = lake.run(*options)
    assert done.exit_code == code and said in done.stderr
    assert done.stderr.startswith("kafkad: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("table", ["parquet", "delta", "iceberg"])
def test_a_table_stays_divided_as_it_was(lake: Lake, table: str) -> None:
    batches = [build_batch([NewRecord(time_ms, None, b"v")], base_offset=at) for at, time_ms in enumerate(TIMES_MS)]
    partition(lake.log, "t-0", *batches)
    checkpoint(lake.log, HIGH_WATERMARKS, p0=3)
    options = ("--format", table, "--partition-by")
    assert lake.run(*options, "hour").exit_code == 0
    checkpoint(lake.log, HIGH_WATERMARKS, p0=4)
    for other in ("none", "day"):
        said = lake.run(*options, other).stderr
        assert f"the table has --partition-by hour, not --partition-by {other}" in said
    assert lake.run(*options, "hour").exit_code == 0
    found = {str(path.parent.relative_to(lake.out)) for path in lake.out.rglob("*.parquet")}
    assert found == {"date=1970-01-01/hour=00", "date=1970-01-01/hour=01", "date=1970-01-02/hour=00"}
    assert lake.records() == len(TIMES_MS)


def bomb(offset: int) -> bytes:
    """8 KB that decompress to more than anybody reads, as a producer may send it."""
    header = read_header(plain(offset))._replace(attributes=Codec.ZSTD)
    return seal_batch(header, zstandard.compress(bytes(MAX_DECOMPRESSED_BYTES + 1)))


@pytest.mark.parametrize("keep", ["all", "latest"])
def test_a_batch_that_can_not_be_read_is_named_set_aside_or_skipped(lake: Lake, tmp_path: Path, keep: str) -> None:
    keyed = [build_batch([NewRecord(1, b"%d" % at, b"v")], base_offset=at) for at in (0, 2)]
    partition(lake.log, "t-0", keyed[0], bomb(1), keyed[1])
    checkpoint(lake.log, HIGH_WATERMARKS, p0=3)
    options = ("--keep", keep)
    rejected = lake.run(*options)
    why = f"the decompressed records exceed the limit of {MAX_DECOMPRESSED_BYTES} bytes"
    assert rejected.exit_code == 1 and rejected.stderr.count("\n") == 1
    assert f"t-0: at offset 1, the records of a batch can't be read: {why}" in rejected.stderr
    skipped = lake.run(*options, "--on-damage", "skip")
    assert skipped.exit_code == 0 and lake.records() == 2
    assert skipped.stderr == (
        f"t-0: at offset 1, the records of a batch can't be read: {why}; it ends at offset 1: skipped\n"
    )
    assert "nothing new" in lake.run(*options).stdout
    if keep == "all":
        lake.out = tmp_path / "other"
        row = json.loads(lake.run("--on-damage", "dlq", "--json").stdout)
        assert (row["records"], row["unparsed"], row["skipped"]) == (3, 1, [])
        (file,) = (tmp_path / "other__dlq").glob("*.parquet")
        (letter,) = pq.read_table(file).to_pylist()
        assert (letter["offset"], letter["value"]) == (1, bomb(1)) and why in letter["reason"]


def test_a_table_whose_log_is_gone_is_refused_until_it_is_made_anew(lake: Lake) -> None:
    partition(lake.log, "t-0", *map(plain, range(9)))
    checkpoint(lake.log, HIGH_WATERMARKS, p0=5)
    assert lake.run().exit_code == 0
    shutil.rmtree(lake.out / "_kafkad_log")
    checkpoint(lake.log, HIGH_WATERMARKS, p0=9)
    rejected = lake.run()
    assert rejected.exit_code == 1 and "kafkad export maintain --rebuild-log" in rejected.stderr
    command = ["export", "maintain", "--topic", "t", "--out", str(lake.out), "--rebuild-log"]
    made = CliRunner().invoke(main, command, catch_exceptions=False)
    assert made.exit_code == 0
    assert made.stdout == (
        f"{lake.out}: 1 files are in the new log; kafkad export verify compares them with the topic\n"
        "t-0: offsets 0 to 4\n"
    )
    again = CliRunner().invoke(main, command, catch_exceptions=False)
    assert again.exit_code == 1 and "or the log exists" in again.stderr
    assert lake.run().exit_code == 0 and lake.records() == 9


def test_an_iceberg_table_is_in_the_catalog_that_is_named(lake: Lake, tmp_path: Path) -> None:
    partition(lake.log, "t-0", *map(plain, range(9)))
    checkpoint(lake.log, HIGH_WATERMARKS, p0=9)
    address = f"sqlite:///{tmp_path}/catalog.db"
    options = ("--format", "iceberg", "--catalog", address, "--table", "shop.orders", "--partition-by", "day")
    assert lake.run(*options).exit_code == 0
    table = load_catalog("kafkad", type="sql", uri=address).load_table("shop.orders")
    assert sorted(table.scan().to_arrow().column("offset").to_pylist()) == list(range(9))
    assert [field.name for field in table.spec().fields] == ["timestamp_day"]
    assert not list(lake.out.glob("*.db"))
