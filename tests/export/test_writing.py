"""Into which folders, and how large files, the records of a range are written."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad.export.engines.local import run_here
from kafkad.export.places import TableFolder
from kafkad.export.preparation import prepare
from kafkad.export.ranges import OffsetRange
from kafkad.export.run import carry_out
from kafkad.export.schema import RECORDS
from kafkad.export.sinks.sink import Merging
from kafkad.export.tables import open_sink
from kafkad.export.values.columns import VALUE
from kafkad.export.wanted import Wanted
from kafkad.export.writing import END_US, FIRST_US, Layout, RangeWriter, WrittenFile
from tests.export.from_files import from_files
from tests.export.reading.test_log_directories import checkpoint, partition

NO_TIMESTAMP = -1
HOUR_US = 3_600_000_000


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
        carry_out(prepare(asked, sink), sink, lambda tasks: run_here(tasks, 1), lambda _file: None)
    day, nowhere = "date=1970-01-01", "date=__HIVE_DEFAULT_PARTITION__"
    dates = ["date=1969-12-31", day, nowhere, nowhere, day, nowhere]
    for _ in range(2):
        assert folders(asked) == dict(enumerate(dates if partition_by == "day" else [""] * 6))
        assert dates_of(asked) == {
            at: None if name == nowhere or partition_by == "none" else name.removeprefix("date=")
            for at, name in enumerate(dates)
        }
        open_sink(asked).merge_small(Merging(asked.target_file_bytes, asked.compression))
    assert len(open_sink(asked).files()) == (1 if partition_by == "none" else 3)


def folders(asked: Wanted) -> dict[int, str]:
    """Of each offset, that of its file."""
    found: dict[int, str] = {}
    for name in open_sink(asked).files():
        offsets = pq.ParquetFile(Path(asked.out) / name).read(["offset"]).column(0).to_pylist()
        assert not set(offsets) & set(found)
        found |= dict.fromkeys(offsets, name.rpartition("/")[0])
    return dict(sorted(found.items()))


def dates_of(asked: Wanted) -> dict[int, str | None]:
    """As readers of the table see them."""
    if asked.format == "delta":
        rows = DeltaTable(asked.out).to_pyarrow_table()
    elif asked.format == "iceberg":
        catalog = load_catalog("kafkad", type="sql", uri=f"sqlite:///{asked.out}/_catalog.db")
        rows = catalog.load_table("kafkad.t").scan().to_arrow()
    else:
        paths = [f"{asked.out}/{name}" for name in open_sink(asked).files()]
        rows = ds.dataset(paths, partitioning="hive", partition_base_dir=asked.out).to_table()
    dates = rows.column("date").to_pylist() if "date" in rows.column_names else [None] * len(rows)
    return dict(sorted(zip(rows.column("offset").to_pylist(), dates, strict=True)))


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
