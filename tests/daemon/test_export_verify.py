"""`kafkad export verify` finds what is wrong with the files of a table: each is a line, and the exit code is 1.

The broker is a real one, as the command compares the table with what it has; all tests share it.
"""

import json
import shutil
import time
from contextlib import chdir
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyiceberg.catalog import load_catalog

from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient
from tests.daemon.lake import FORMATS, Lake, one_line

COUNT = 300


def found(lake: Lake, *options: str) -> list[str]:
    """What is wrong, but for the lines of partitions."""
    done = lake.done("verify", *options)
    lines = done.stdout.splitlines()
    assert (done.exit_code, done.stderr) == (1, ""), done.output
    said = lake.done("verify", *options, "--json")
    rows = json.loads(said.stdout)
    assert said.exit_code == 1 and len(rows) == len(lines)
    of_files = [line for line in lines if line.startswith("WRONG: ")]
    assert of_files == [f"WRONG: {row['path']} {row['problem']}" for row in rows if "path" in row]
    assert not any(row["right"] for row in rows if "path" in row)
    return of_files


def add_again(lake: Lake, table: str, path: str) -> str:
    """The same file under another name, as a part of the table. Returns its path."""
    copy = f"{path.removesuffix('.parquet')}-again.parquet"
    shutil.copy(path, copy)
    name = Path(copy).name
    if table == "parquet":
        (manifest,) = Path(lake.out, "_kafkad_log").glob("*.json")
        content = json.loads(manifest.read_text())
        old = next(each for each in content["files"] if each["path"] == Path(path).name)
        content |= {"commit": 1, "files": [{**old, "path": name}]}
        manifest.with_name(f"{1:020d}.json").write_text(json.dumps(content))
    elif table == "delta":
        delta = DeltaTable(str(lake.out))
        added = AddAction(name, Path(copy).stat().st_size, {}, 0, True, "{}")
        delta.create_write_transaction([added], mode="append", schema=delta.schema(), partition_by=[])
    else:
        catalog = load_catalog("kafkad", type="sql", uri=f"sqlite:///{lake.out}/_catalog.db")
        catalog.load_table(f"kafkad.{lake.topic}").add_files([copy])
    return copy


@FORMATS
def test_a_record_that_is_not_as_in_the_log_is_counted_when_it_is_looked_at(lake: Lake, table: str) -> None:
    lake.produce(COUNT)
    lake.run("run", "--format", table)
    path = lake.run("files", "--format", table).splitlines()[0]
    rows = pq.ParquetFile(path).read()
    values = [b"another", *rows.column("value").to_pylist()[1:]]
    pq.write_table(rows.set_column(rows.schema.get_field_index("value"), "value", pa.array(values, pa.binary())), path)
    assert lake.done("verify", "--format", table).exit_code == 0
    deep = lake.done("verify", "--format", table, "--deep")
    assert deep.exit_code == 1
    assert [line.rpartition(", ")[2] for line in deep.stdout.splitlines() if "WRONG" in line] == ["1 differ"]


@FORMATS
def test_a_file_that_is_gone_is_named(lake: Lake, table: str) -> None:
    options = ("--format", table)
    lake.produce(COUNT)
    lake.run("run", *options)
    gone, broken, *_ = lake.run("files", *options).splitlines()
    Path(gone).unlink()
    Path(broken).write_bytes(Path(broken).read_bytes()[:-10])
    lines = found(lake, *options)
    assert lines[0] == f"WRONG: {gone} is part of the table, but does not exist"
    assert lines[1].startswith(f"WRONG: {broken} can't be read: ") and len(lines) == 2


@FORMATS
def test_two_files_with_the_same_records_are_named(lake: Lake, table: str) -> None:
    options = ("--format", table)
    lake.produce(COUNT)
    lake.run("run", *options)
    path = lake.run("files", *options).splitlines()[0]
    copy = add_again(lake, table, path)
    (line,) = found(lake, *options)
    first, second = sorted((path, copy), key=lambda each: lake.run("files", *options).splitlines().index(each))
    assert line.startswith(f"WRONG: {first} and {second} both have offsets 0 to ")


def test_a_commit_of_a_parquet_table_that_is_gone_is_named(lake: Lake) -> None:
    for _ in range(3):
        lake.produce(COUNT)
        lake.run("run")
    gone = Path(lake.out, "_kafkad_log", f"{1:020d}.json")
    files = {path.name for path in lake.out.glob("*.parquet")}
    gone.unlink()
    said = f"kafkad: {gone}, a commit of the table, is missing\n"
    assert one_line(lake.run("verify", code=1)) == said
    # Nor are the files of that commit taken for those of a run that did not end.
    assert one_line(lake.run("maintain", "--older-than", "0", code=1)) == said
    assert {path.name for path in lake.out.glob("*.parquet")} == files


@pytest.mark.parametrize(
    ("table", "start"), [("parquet", "latest"), ("parquet", "time"), ("delta", "latest"), ("iceberg", "latest")]
)
def test_a_table_that_begins_later_than_its_topic_is_right(lake: Lake, table: str, start: str) -> None:
    lake.produce(COUNT)
    now_ms = time.time_ns() // 1_000_000
    options = ("--format", table)
    begin = ("--start", "latest" if start == "latest" else str(now_ms))
    assert json.loads(lake.run("run", *options, *begin, "--json"))["records"] == 0
    lake.produce(COUNT)
    assert json.loads(lake.run("run", *options, *begin, "--json"))["records"] == COUNT
    rows = json.loads(lake.run("verify", *options, "--json"))
    assert sum(row["compared"] for row in rows) == COUNT
    # What the table does not have of what it has begun with is missing all the same.
    Path(lake.run("files", *options).splitlines()[0]).unlink()
    assert any(line.endswith("does not exist") for line in found(lake, *options))


def test_a_table_of_uncommitted_records_is_right_where_one_says_so(lake: Lake) -> None:
    options = ("--isolation", "read_uncommitted")
    lake.transactions(4)
    assert json.loads(lake.run("run", *options, "--json"))["records"] == 200
    rows = json.loads(lake.run("verify", *options, "--json"))
    assert sum(row["compared"] for row in rows) == 200
    assert json.loads(lake.run("status", *options, "--json"))["lag"] == 0


def test_a_table_of_another_topic_is_neither_right_nor_behind(lake: Lake) -> None:
    lake.produce(COUNT)
    lake.run("run")
    with BrokerClient(lake.bootstrap) as client:
        client.delete_topic(lake.topic)
        client.until_deadline(
            lambda: client.create_topic(lake.topic, partitions=1, replication_factor=BROKER_DEFAULT, configs={})
        )
    for verb in ("verify", "status"):
        assert "was deleted and created again" in one_line(lake.run(verb, code=1))
    other = f"{lake.topic}-other"
    with BrokerClient(lake.bootstrap) as client:
        client.create_topic(other, partitions=1, replication_factor=BROKER_DEFAULT, configs={})
    assert f"the table is of topic '{lake.topic}'" in one_line(lake.run("status", "--topic", other, code=1))


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        ("delta", ["--format", "parquet"], "is a table of another format, delta"),
        ("iceberg", ["--format", "iceberg", "--table", "shop.orders"], "but shop.orders of its catalog is missing"),
        ("parquet", ["--out", "."], "has other files (table/)"),
    ],
)
def test_where_no_table_is_seen_maintenance_deletes_nothing(
    lake: Lake, table: str, options: list[str], said: str
) -> None:
    """Its files may be those of a table of another kind, or of one within the folder."""
    lake.produce(COUNT)
    lake.run("run", "--format", table)
    there = set(lake.out.rglob("*"))
    for verb in (["maintain", "--older-than", "0"], ["files"]):
        with chdir(lake.out.parent):
            done = lake.done(*verb, *options)
        assert done.exit_code == 1 and said in one_line(done.stderr)
        assert set(lake.out.rglob("*")) == there
