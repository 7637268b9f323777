"""What a table has and the log has not, and the other way round."""

from pathlib import Path

import numpy as np
import pytest

from kafkad.export.places import TableFolder
from kafkad.export.ranges import OffsetRange
from kafkad.export.reading.source import Source
from kafkad.export.task import Task, run_task
from kafkad.export.verification import FileOffsets, Verified, WrongFile, overlaps, read_offsets, verify
from kafkad.export.writing import Layout, WrittenFile
from tests.export.reading.test_log_directories import partition, plain


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
def test_a_damaged_batch_is_missing_unless_runs_skip_those(
    tmp_path: Path, missing: int, *, skips_damage: bool
) -> None:
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
    ((_, offsets),) = read.offsets[0]
    assert offsets.tolist() == list(range(9))
    gone, empty = read.wrong
    assert gone == WrongFile(f"{tmp_path}/table/gone.parquet", "is missing: the table names it, and it is not there")
    assert empty.path == f"{tmp_path}/table/empty.parquet" and empty.problem.startswith("can't be read: ")


def of_file(name: str, *offsets: int) -> FileOffsets:
    return FileOffsets(name, np.array(offsets, np.int64))


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
