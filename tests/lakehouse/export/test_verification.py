"""What a table has and the log has not, and the other way round."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kafkad.core.columns.window import split_window
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading.checksums import checksums
from kafkad_lakehouse.export.reading.decoding import arrow_batches
from kafkad_lakehouse.export.reading.source import Source
from kafkad_lakehouse.export.reading.transactions import CommittedFilter
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.task import Task, run_task
from kafkad_lakehouse.export.verification import FileOffsets, Verified, WrongFile, overlaps, read_offsets, verify
from kafkad_lakehouse.export.writing import Layout, WrittenFile
from tests.lakehouse.export.reading.test_log_directories import partition, plain


def exported(tmp_path: Path) -> list[tuple[TableFolder, str]]:
    """A table of offsets 0 to 8."""
    log = partition(tmp_path / "before", "t-0", *map(plain, range(9)))
    task = Task(
        source=Source(topic="t", directories={0: str(log)}),
        ranges=(OffsetRange(0, 0, 9),),
        layout=Layout(out=str(tmp_path / "table"), topic="t", run_id="20260101T000000-00000000"),
    )
    files = [each for each in run_task(task.as_attempt()) if isinstance(each, WrittenFile)]
    return [(TableFolder(str(tmp_path / "table")), file.path) for file in files]


def verified(tmp_path: Path, *offsets: int, is_compacted: bool) -> Verified:
    """The log has these offsets, the table 0 to 8."""
    files = exported(tmp_path)
    log = partition(tmp_path / "now", "t-0", *map(plain, offsets))
    source = Source(topic="t", directories={0: str(log)})
    (found,) = verify(read_offsets(files), source, {0: 9}, {0: 0}, keeps="all", is_compacted=is_compacted)
    return found


def test_what_a_compacted_log_has_lost_since_is_right(tmp_path: Path) -> None:
    found = verified(tmp_path, 0, 2, 4, 8, is_compacted=True)
    assert (found.compared, found.missing, found.foreign, found.compacted) == (4, 0, 0, 5)
    assert found.is_right


def test_what_no_compaction_explains_is_wrong(tmp_path: Path) -> None:
    found = verified(tmp_path, 0, 2, 4, 8, is_compacted=False)
    assert (found.foreign, found.compacted, found.is_right) == (5, 0, False)


def test_what_the_table_lacks_is_missing_in_a_compacted_topic_too(tmp_path: Path) -> None:
    files = exported(tmp_path)
    log = partition(tmp_path / "now", "t-0", *map(plain, (0, 8, 9)))
    source = Source(topic="t", directories={0: str(log)})
    (found,) = verify(read_offsets(files), source, {0: 10}, {0: 0}, keeps="all", is_compacted=True)
    assert (found.missing, found.is_right) == (1, False)


@pytest.mark.parametrize(("skips_damage", "missing"), [(False, 1), (True, 0)])
def test_a_damaged_batch_is_missing_unless_runs_skip_those(tmp_path: Path, missing: int, *, skips_damage: bool) -> None:
    files = exported(tmp_path)
    damaged = plain(9)[:-1] + b"x"
    log = partition(tmp_path / "now", "t-0", *map(plain, range(9)), damaged, plain(10))
    (log / f"{11:020d}.log").write_bytes(plain(11))
    source = Source(topic="t", directories={0: str(log)}, sets_damage_aside=True)
    ends = {0: 10}
    (found,) = verify(read_offsets(files), source, ends, {0: 0}, keeps="all", skips_damage=skips_damage)
    assert (found.missing, found.foreign) == (missing, 0)


def test_a_file_that_is_not_there_or_no_file_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    ((folder, path),) = exported(tmp_path)
    Path(folder.root, "empty.parquet").touch()
    read = read_offsets([(folder, "gone.parquet"), (folder, path), (folder, "empty.parquet")])
    (in_file,) = read.offsets[0]
    assert in_file.offsets.tolist() == list(range(9))
    gone, empty = read.wrong
    assert gone == WrongFile(f"{tmp_path}/table/gone.parquet", "is part of the table, but does not exist")
    assert empty.path == f"{tmp_path}/table/empty.parquet" and empty.problem.startswith("can't be read: ")


def records(*values: bytes, header: bytes | None = b"h") -> list[bytes]:
    """Batches of a record each."""
    return [
        build_batch([NewRecord(at, b"k", value, () if header is None else ((f"n{at}", header),))], base_offset=at)
        for at, value in enumerate(values)
    ]


def different(tmp_path: Path, log: Sequence[bytes], *, keeps: str = "all") -> int | None:
    """A table of `records(b"a", b"b", None)` against this log."""
    before = partition(tmp_path / "before", "t-0", *records(b"a", b"b", b"c"))
    task = Task(
        source=Source(topic="t", directories={0: str(before)}),
        ranges=(OffsetRange(0, 0, 3),),
        layout=Layout(out=str(tmp_path / "table"), topic="t", run_id="20260101T000000-00000000"),
        keeps=keeps,
    )
    folder = TableFolder(str(tmp_path / "table"))
    files = [(folder, each.path) for each in run_task(task) if isinstance(each, WrittenFile)]
    now = partition(tmp_path / "now", "t-0", *log)
    source = Source(topic="t", directories={0: str(now)})
    (found,) = verify(read_offsets(files, is_deep=True), source, {0: 3}, {0: 0}, keeps=keeps, is_deep=True)
    assert (found.missing, found.foreign) == (0, 0)
    assert found.is_right == (found.different == 0)
    return found.different


def test_the_same_records_are_right_also_as_the_latest_of_each_key(tmp_path: Path) -> None:
    assert different(tmp_path, records(b"a", b"b", b"c")) == 0
    assert different(tmp_path / "latest", records(b"a", b"b", b"c"), keeps="latest") == 0


def test_records_with_another_value_header_key_or_time_are_counted(tmp_path: Path) -> None:
    same = records(b"a", b"b", b"c")
    assert different(tmp_path / "value", records(b"a", b"B", b"C")) == 2
    assert different(tmp_path / "headers", records(b"a", b"b", b"c", header=b"")) == 3
    assert different(tmp_path / "none", records(b"a", b"b", b"c", header=None)) == 3
    for number, record in enumerate(
        [
            NewRecord(1, b"b", b"k", (("n1", b"h"),)),
            NewRecord(1, None, b"b", (("n1", b"h"),)),
            NewRecord(2, b"k", b"b", (("n1", b"h"),)),
            NewRecord(1, b"k", b"b", (("n1", b"h"), ("n1", b"h"))),
            NewRecord(1, b"k", b"b", (("n1", None),)),
        ]
    ):
        other = [same[0], build_batch([record], base_offset=1), same[2]]
        assert different(tmp_path / str(number), other) == 1


def test_the_order_of_headers_counts() -> None:
    one, two = (("a", b"1"), ("b", b"2")), (("b", b"2"), ("a", b"1"))
    data = build_batch([NewRecord(1, None, b"v", each) for each in (one, two, one, ())])
    window = split_window(data, 0, len(data))
    (batch,) = arrow_batches(window, CommittedFilter().visible(window), "t", 0, 0, 9)
    sums = checksums(batch).tolist()
    assert sums[0] == sums[2] and len(set(sums)) == 3
    assert checksums(batch.slice(1)).tolist() == sums[1:]


def of_file(name: str, *offsets: int) -> FileOffsets:
    return FileOffsets(name, np.array(offsets, np.int64), np.zeros(len(offsets), np.int8))


def test_files_with_the_same_offsets_are_named() -> None:
    files = [of_file("a", 0, 1, 4, 5), of_file("b", 2, 3), of_file("c", 5, 6, 7, 7), of_file("d", 4, 9)]
    assert overlaps(files, 100) == [
        WrongFile("a", "and c both have offsets 5 to 5 (1 records)"),
        WrongFile("a", "and d both have offsets 4 to 4 (1 records)"),
        WrongFile("c", "and itself both have offsets 7 to 7 (1 records)"),
    ]
    # Dead letters may be further than the table.
    assert overlaps(files, 4) == []
    assert overlaps([], 4) == []


def test_files_of_different_hours_may_take_turns() -> None:
    assert overlaps([of_file("a", 0, 2, 4), of_file("b", 1, 3, 5)], 6) == []
