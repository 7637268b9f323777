"""A Parquet table whose log is gone is no new table, and its files say what the log has said."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad_lakehouse.export.engines.local import run_here
from kafkad_lakehouse.export.preparation import prepare
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.request import KEEP_LATEST, ExportRequest
from kafkad_lakehouse.export.run import run_export
from kafkad_lakehouse.export.sinks.manifest_log import LOG
from kafkad_lakehouse.export.sinks.rebuilding import has_lost_log, rebuild_log
from kafkad_lakehouse.export.sinks.sink import Merging
from kafkad_lakehouse.export.table_folder import TableFolder
from kafkad_lakehouse.export.tables import open_dead_letters, open_sink
from kafkad_lakehouse.export.values.format import ValueFormat
from tests.lakehouse.export.from_files import from_files
from tests.lakehouse.export.reading.test_log_directories import checkpoint, partition

DAY_MS = 86_400_000
MERGING = Merging(1 << 20, "zstd")
FIRST = b'{"properties": {"n": {"type": "integer"}}}'
WIDER = b'{"properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}'


def parsed(schema: bytes) -> ValueFormat:
    return ValueFormat(kind="json", schema=schema)


def log_of(folder: Path, count: int) -> None:
    """Every third value is no JSON; four records of each day."""
    values = [b"rubbish" if at % 3 == 0 else b'{"n": %d}' % at for at in range(count)]
    batches = [build_batch([NewRecord(at // 4 * DAY_MS, b"k", each)], base_offset=at) for at, each in enumerate(values)]
    partition(folder / "log", "t-0", *batches)


def export(asked: ExportRequest, end: int) -> None:
    checkpoint(Path(asked.out).parent / "log", HIGH_WATERMARKS, p0=end)
    sink = open_sink(asked)
    run_export(prepare(asked, sink), sink, lambda tasks: run_here(tasks, 1), lambda _file: None)


def lose_log(asked: ExportRequest) -> None:
    """As a copy that leaves out what begins with _."""
    for out in (asked.out, f"{asked.out}__dlq"):
        for name in (LOG, "_tmp"):
            shutil.rmtree(f"{out}/{name}", ignore_errors=True)


def offsets(asked: ExportRequest) -> list[int]:
    """Of the table and its dead letters."""
    found: list[int] = []
    for out, sink in ((asked.out, open_sink(asked)), (f"{asked.out}__dlq", open_dead_letters(asked))):
        for path in sink.files():
            found += pq.read_table(f"{out}/{path}", columns=["offset"]).column("offset").to_pylist()
    return sorted(found)


@pytest.mark.parametrize("partition_by", ["none", "day"])
@pytest.mark.parametrize("merges", [False, True])
def test_a_table_goes_on_behind_its_new_log(tmp_path: Path, partition_by: str, *, merges: bool) -> None:
    log_of(tmp_path, 30)
    asked = from_files(tmp_path, partition_by=partition_by, formats=(parsed(FIRST),))
    export(asked, 6)
    asked = from_files(tmp_path, partition_by=partition_by, formats=(parsed(WIDER),))
    export(asked, 22)
    if merges:
        assert open_sink(asked).merge_small(MERGING).after
        export(asked, 25)
    before, files = open_sink(asked).state([0]), open_sink(asked).files()
    lose_log(asked)
    with pytest.raises(ExportFailed, match="--rebuild-log"):
        export(asked, 30)
    rebuilt = rebuild_log(TableFolder(asked.out), "t")
    rebuild_log(TableFolder(f"{asked.out}__dlq"), "t")
    # The last record is a dead letter.
    end = before.offsets[0] - 1
    assert rebuilt.ranges == [OffsetRange(0, 0, end)] and len(rebuilt.left_out) == (2 if merges else 0)
    after = open_sink(asked).state([0])
    known = ("cluster_id", "topic_id", "topic", "columns", "keeps", "partition_by", "begins", "has_earlier_topic")
    assert [getattr(after, name) for name in known] == [getattr(before, name) for name in known]
    assert after.offsets == {0: end} and after.complete_until is None
    assert set(open_sink(asked).files()) == set(files)
    export(asked, 30)
    assert offsets(asked) == list(range(30))


def test_what_no_file_has_is_told(tmp_path: Path) -> None:
    log_of(tmp_path, 9)
    asked = from_files(tmp_path)
    for end in (3, 6, 9):
        export(asked, end)
    (gone,) = Path(asked.out).glob(f"t-0-{3:020d}-*.parquet")
    gone.unlink()
    lose_log(asked)
    rebuilt = rebuild_log(TableFolder(asked.out), "t")
    assert (rebuilt.files, rebuilt.ranges, rebuilt.empty) == (2, [OffsetRange(0, 0, 9)], [OffsetRange(0, 3, 6)])


def without_identity(path: Path) -> None:
    """As a kafkad of before has written it."""
    table = pq.ParquetFile(path).read()
    pq.write_table(table.replace_schema_metadata(None), path)


def test_files_of_a_kafkad_of_before_are_taken_where_another_one_says_of_which_topic_they_are(tmp_path: Path) -> None:
    log_of(tmp_path, 6)
    asked = from_files(tmp_path)
    export(asked, 3)
    (first,) = Path(asked.out).glob("t-*.parquet")
    without_identity(first)
    lose_log(asked)
    with pytest.raises(ExportFailed, match="without their topic id"):
        rebuild_log(TableFolder(asked.out), "t")
    (tmp_path / "kept").mkdir()
    shutil.move(first, tmp_path / "kept")
    export(asked, 3)
    export(asked, 6)
    lose_log(asked)
    for written in Path(asked.out).glob(f"t-0-{0:020d}-*.parquet"):
        written.unlink()
    shutil.move(tmp_path / "kept" / first.name, first)
    assert rebuild_log(TableFolder(asked.out), "t").ranges == [OffsetRange(0, 0, 6)]
    state = open_sink(asked).state([0])
    assert (state.offsets, state.reached) == ({0: 6}, {0: DAY_MS * 1_000})


def test_a_table_of_the_latest_of_each_key_can_not_be_known_again(tmp_path: Path) -> None:
    log_of(tmp_path, 6)
    asked = from_files(tmp_path, keeps=KEEP_LATEST)
    export(asked, 3)
    export(asked, 6)
    lose_log(asked)
    with pytest.raises(ExportFailed, match="export the topic again"):
        rebuild_log(TableFolder(asked.out), "t")


def test_files_that_share_some_offsets_are_named(tmp_path: Path) -> None:
    log_of(tmp_path, 9)
    asked = from_files(tmp_path)
    for end in (3, 6):
        export(asked, end)
    one, other = sorted(Path(asked.out).glob("t-*.parquet"))
    overlapping = other.name.replace(f"{3:020d}", f"{2:020d}", 1)
    other.rename(other.with_name(overlapping))
    lose_log(asked)
    with pytest.raises(ExportFailed, match=f"{one.name} and {overlapping} both have offsets 2 to 2"):
        rebuild_log(TableFolder(asked.out), "t")


def test_a_log_that_is_there_is_not_lost(tmp_path: Path) -> None:
    log_of(tmp_path, 3)
    asked = from_files(tmp_path)
    assert not has_lost_log(TableFolder(asked.out))
    export(asked, 3)
    assert not has_lost_log(TableFolder(asked.out))
    lose_log(asked)
    assert has_lost_log(TableFolder(asked.out))
    with pytest.raises(ExportFailed, match="is of topic 't', not 'u'"):
        rebuild_log(TableFolder(asked.out), "u")
