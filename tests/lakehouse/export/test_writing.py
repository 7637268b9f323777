"""Into which folders, and how large files, the records of a range are written."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad_lakehouse.export.engines.local import run_here
from kafkad_lakehouse.export.preparation import prepare
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.request import ExportRequest
from kafkad_lakehouse.export.run import run_export
from kafkad_lakehouse.export.schema import RECORDS
from kafkad_lakehouse.export.sinks.sink import Merging
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.tables import open_sink
from kafkad_lakehouse.export.values.columns import VALUE
from kafkad_lakehouse.export.writing import END_US, FIRST_US, Layout, RangeWriter, WrittenFile, hour_number
from tests.lakehouse.export.from_files import from_files
from tests.lakehouse.export.reading.test_log_directories import ID, checkpoint, partition

NO_TIMESTAMP = -1
HOUR_US = 3_600_000_000
TWELVE, THIRTEEN = "2026-01-31T12:00:00+00:00", "2026-01-31T13:00:00+00:00"


def written(layout: Layout, *times_us: int | None, value: bytes = b"v") -> list[WrittenFile]:
    """One batch for each record."""
    writer = RangeWriter(layout, OffsetRange(0, 0, len(times_us)))
    found: list[WrittenFile] = []
    for offset, time_us in enumerate(times_us):
        row = dict.fromkeys(RECORDS.names) | {"topic": "t", "partition": 0, "offset": offset, "value": value}
        row |= {"timestamp": time_us, "timestampType": 0}
        kinds = [pa.int64() if field.name == "timestamp" else field.type for field in RECORDS]
        columns = [pa.array([row[field.name]], kind) for field, kind in zip(RECORDS, kinds, strict=True)]
        columns = [column.cast(field.type) for column, field in zip(columns, RECORDS, strict=True)]
        found += writer.write(pa.RecordBatch.from_arrays(columns, schema=RECORDS))
    return [*found, *writer.close()]


@pytest.mark.parametrize("partition_by", ["day", "hour"])
@pytest.mark.parametrize("has_dates", [False, True])
def test_times_that_are_no_date_have_a_folder_of_their_own(partition_by: str, has_dates: bool, tmp_path: Path) -> None:
    layout = Layout(out=str(tmp_path), topic="t", run_id="r", partition_by=partition_by, has_dates=has_dates)
    nowhere = "__HIVE_DEFAULT_PARTITION__"
    times = [-1_000, 0, FIRST_US, FIRST_US - 1, END_US - 1, END_US, None, (1 << 63) - 1, -(1 << 63)]
    files = written(layout, *times)
    assert {file.first_offset: (file.date, file.hour) for file in files} == {
        0: ("1969-12-31", "23" if partition_by == "hour" else None),
        1: ("1970-01-01", "00" if partition_by == "hour" else None),
        2: ("0001-01-01", "00" if partition_by == "hour" else None),
        3: (nowhere, nowhere if partition_by == "hour" else None),
        4: ("9999-12-31", "23" if partition_by == "hour" else None),
    }
    (strange,) = [file for file in files if file.date == nowhere]
    table = pq.ParquetFile(tmp_path / strange.path).read()
    assert table.column("offset").to_pylist() == [3, 5, 6, 7, 8]
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == [times[at] for at in (3, 5, 6, 7, 8)]
    if has_dates:
        assert table.column("date").null_count == 5


@pytest.mark.parametrize("partition_by", ["day", "hour"])
def test_where_a_function_of_the_time_divides_every_time_has_a_date(partition_by: str, tmp_path: Path) -> None:
    layout = Layout(out=str(tmp_path), topic="t", run_id="r", partition_by=partition_by, by_transform=True)
    times = [FIRST_US, FIRST_US - 1, -(1 << 63), END_US - 1, END_US, (1 << 63) - 1, None]
    found = []
    for file in written(layout, *times):
        clock = file.hour if partition_by == "hour" else "-"
        rows = pq.ParquetFile(tmp_path / file.path).read().column("offset").to_pylist()
        found.append((file.date, clock, hour_number(file.date, file.hour), rows))
    first, last, nowhere = -17_259_888, 70_389_527, "__HIVE_DEFAULT_PARTITION__"
    is_hour = partition_by == "hour"
    # Files have bounds of times unless one of these is no date: that one begins a file.
    assert sorted(found, key=lambda each: each[3]) == [
        ("0001-01-01", "00" if is_hour else "-", first, [0]),
        ("0001-01-01", "00" if is_hour else "-", first, [1, 2]),
        ("9999-12-31", "23" if is_hour else "-", last if is_hour else last - 23, [3]),
        ("9999-12-31", "23" if is_hour else "-", last if is_hour else last - 23, [4, 5]),
        (nowhere, nowhere if is_hour else "-", None, [6]),
    ]


@pytest.mark.parametrize("partition_by", ["none", "day"])
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_table_has_records_of_any_time(kind: str, partition_by: str, tmp_path: Path) -> None:
    """Each of its own run; then their files are merged."""
    times_ms = [NO_TIMESTAMP, 0, 300_000_000_000_000, (1 << 63) - 1, 0, -300_000_000_000_000]
    batches = [build_batch([NewRecord(each, None, b"v")], base_offset=at) for at, each in enumerate(times_ms)]
    partition(tmp_path / "log", "t-0", *batches)
    asked = from_files(tmp_path, format=kind, partition_by=partition_by)
    for end in (1, 2, 3, 6):
        checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=end)
        sink = open_sink(asked)
        run_export(prepare(asked, sink), sink, lambda tasks: run_here(tasks, 1), lambda _file: None)
    day, nowhere = "date=1970-01-01", "date=__HIVE_DEFAULT_PARTITION__"
    far, before = ("date=9999-12-31", "date=0001-01-01") if kind == "iceberg" else (nowhere, nowhere)
    dates = ["date=1969-12-31", day, far, nowhere, day, before]
    for _ in range(2):
        assert folders(asked) == dict(enumerate(dates if partition_by == "day" else [""] * 6))
        assert dates_of(asked) == {
            at: None if name == nowhere or partition_by == "none" else name.removeprefix("date=")
            for at, name in enumerate(dates)
        }
        open_sink(asked).merge_small(Merging(asked.target_file_bytes, asked.compression))
    assert len(open_sink(asked).files()) == (1 if partition_by == "none" else len(set(dates)))


def folders(asked: ExportRequest) -> dict[int, str]:
    """Of each offset, that of its file."""
    found: dict[int, str] = {}
    for name in open_sink(asked).files():
        offsets = pq.ParquetFile(Path(asked.out) / name).read(["offset"]).column(0).to_pylist()
        assert not set(offsets) & set(found)
        found |= dict.fromkeys(offsets, name.rpartition("/")[0])
    return dict(sorted(found.items()))


def dates_of(asked: ExportRequest) -> dict[int, str | None]:
    """As readers of the table see them."""
    if asked.format == "delta":
        rows = DeltaTable(asked.out).to_pyarrow_table()
    elif asked.format == "iceberg":
        table = table_of(asked)
        rows = table.scan().to_arrow()
        days = {"0001-01-01": -719_162, "1969-12-31": -1, "1970-01-01": 0, "9999-12-31": 2_932_896}
        named = {day: date for date, day in days.items()}
        if asked.partition_by == "day":
            partitions = {task.file.file_path: task.file.partition[0] for task in table.scan().plan_files()}
            return {
                offset: named.get(day)
                for path, day in partitions.items()
                for offset in pq.ParquetFile(path.removeprefix("file://")).read(["offset"]).column(0).to_pylist()
            }
    else:
        paths = [f"{asked.out}/{name}" for name in open_sink(asked).files()]
        rows = ds.dataset(paths, partitioning="hive", partition_base_dir=asked.out).to_table()
    dates = rows.column("date").to_pylist() if "date" in rows.column_names else [None] * len(rows)
    return dict(sorted(zip(rows.column("offset").to_pylist(), dates, strict=True)))


def table_of(asked: ExportRequest) -> Table:
    return load_catalog("kafkad", type="sql", uri=f"sqlite:///{asked.out}/_catalog.db").load_table("kafkad.t")


def exported(asked: ExportRequest, folder: Path, *times_ms: int) -> None:
    """A run for each of the records with these times."""
    batches = [build_batch([NewRecord(each, None, b"v")], base_offset=at) for at, each in enumerate(times_ms)]
    partition(folder / "log", "t-0", *batches)
    for end in range(1, len(times_ms) + 1):
        checkpoint(folder / "log", HIGH_WATERMARKS, p0=end)
        sink = open_sink(asked)
        run_export(prepare(asked, sink), sink, lambda tasks: run_here(tasks, 1), lambda _file: None)


@pytest.mark.parametrize(("partition_by", "hours"), [("day", 24), ("hour", 1)])
def test_readers_of_iceberg_find_the_files_of_a_time(partition_by: str, hours: int, tmp_path: Path) -> None:
    noon = 1_769_860_800_000
    asked = from_files(tmp_path, format="iceberg", partition_by=partition_by)
    exported(asked, tmp_path, noon, noon + 3_600_000, noon + 86_400_000, 300_000_000_000_000)
    table = table_of(asked)
    assert [str(field.transform) for field in table.spec().fields] == [partition_by]
    assert [field.name for field in table.schema().fields] == RECORDS.names
    hour = f"timestamp >= '{TWELVE}' and timestamp < '{THIRTEEN}'"
    (task,) = table.scan(hour).plan_files()
    assert task.file.partition[0] == noon // 3_600_000 // hours
    assert table.scan(hour).to_arrow().column("offset").to_pylist() == [0]
    later = table.scan("timestamp >= '2026-02-01T00:00:00+00:00'").to_arrow()
    assert sorted(later.column("offset").to_pylist()) == [2, 3]


@pytest.mark.parametrize("partition_by", ["day", "hour"])
def test_an_iceberg_table_of_an_earlier_version_keeps_its_columns_of_dates(partition_by: str, tmp_path: Path) -> None:
    names = {"day": ["date"], "hour": ["date", "hour"]}[partition_by]
    asked = from_files(tmp_path, format="iceberg", partition_by=partition_by)
    Path(asked.out).mkdir()
    catalog = SqlCatalog("kafkad", uri=f"sqlite:///{asked.out}/_catalog.db")
    catalog.create_namespace("kafkad")
    known = {"cluster_id": "c", "topic_id": str(ID), "topic": "t", "offsets": {}}
    columns = pa.schema([*RECORDS, *((name, pa.string()) for name in names)])
    properties = {"kafkad.export": json.dumps(known), "commit.retry.num-retries": "0"}
    made = catalog.create_table_transaction("kafkad.t", columns, asked.out, properties=properties)
    with made, made.update_spec() as spec:
        for name in names:
            spec.add_identity(name)
    exported(asked, tmp_path, 0, 3_600_000, 300_000_000_000_000)
    for _ in range(2):
        table = table_of(asked)
        assert [str(field.transform) for field in table.spec().fields] == ["identity"] * len(names)
        found = table.scan().to_arrow().select(["offset", *names])
        rows = sorted(found.to_pylist(), key=lambda row: row["offset"])
        assert [row["date"] for row in rows] == ["1970-01-01", "1970-01-01", None]
        if partition_by == "hour":
            assert [row["hour"] for row in rows] == ["00", "01", None]
        open_sink(asked).merge_small(Merging(asked.target_file_bytes, asked.compression))


def test_files_are_about_as_large_as_wanted(tmp_path: Path) -> None:
    """What is not written yet counts a quarter: most of it gets smaller. Without compression they are larger."""
    layout = Layout(out=str(tmp_path), topic="t", run_id="r", target_file_bytes=100_000, compression="none")
    files = written(layout, *range(40), value=bytes(range(256)) * 100)
    assert sum(file.rows for file in files) == 40 and [file.rows for file in files] == [16, 16, 8]
    ends = [(file.first_offset, file.last_offset) for file in files]
    assert [first for first, _ in ends] == [0, *(last + 1 for _, last in ends[:-1])]
    sizes = [(tmp_path / file.path).stat().st_size for file in files]
    assert sizes == [file.size for file in files]
    names = set(TableFolder(str(tmp_path)).names(recursive=True))
    assert names == {file.path for file in files}


def test_parsed_times_that_are_no_date_have_no_bounds(tmp_path: Path) -> None:
    parsed = pa.struct([("day", pa.date32()), ("inner", pa.struct([("at", pa.timestamp("us", "UTC"))]))])
    schema = pa.schema([*RECORDS, pa.field(VALUE, parsed)])
    layout = Layout(out=str(tmp_path), topic="t", run_id="r", schema=schema)
    paths = []
    for day, at in ((0, 0), (1 << 30, 0), (0, 1 << 62)):
        writer = RangeWriter(layout, OffsetRange(0, 0, 1))
        row = dict.fromkeys(RECORDS.names) | {"topic": "t", "partition": 0, "offset": 0, "timestampType": 0}
        columns = [pa.array([row[field.name]], field.type) for field in RECORDS]
        inner = pa.StructArray.from_arrays([pa.array([at], pa.timestamp("us", "UTC"))], names=["at"])
        value = pa.StructArray.from_arrays([pa.array([day], pa.int32()).cast(pa.date32()), inner], fields=list(parsed))
        (file,) = [*writer.write(pa.RecordBatch.from_arrays([*columns, value], schema=schema)), *writer.close()]
        group = pq.ParquetFile(tmp_path / file.path).metadata.row_group(0)
        columns_of = [group.column(number) for number in range(group.num_columns)]
        paths.append({each.path_in_schema for each in columns_of if each.is_stats_set} - {"timestamp"})
    plain = {"partition", "offset"}
    assert paths == [plain | {"value_parsed.day", "value_parsed.inner.at"}, plain, plain]


def test_readers_may_skip_by_offset_and_time(tmp_path: Path) -> None:
    (file,) = written(Layout(out=str(tmp_path), topic="t", run_id="r"), 5, HOUR_US)
    group = pq.ParquetFile(tmp_path / file.path).metadata.row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    offset = columns["offset"].statistics
    assert (offset.min, offset.max) == (0, 1)
    assert columns["timestamp"].statistics.has_min_max and not columns["value"].is_stats_set
