"""A log of manifests that is summed up says the same as before, whoever is in the midst of it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkad_lakehouse.export.problems import CommitConflict, ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.request import KEEP_LATEST
from kafkad_lakehouse.export.run import remove_orphans
from kafkad_lakehouse.export.sinks.manifest_log import CHECKPOINTS, LOG, ManifestLog
from kafkad_lakehouse.export.sinks.parquet import ParquetSink
from kafkad_lakehouse.export.sinks.rebasing import commit_with_rebase
from kafkad_lakehouse.export.sinks.sink import Commit
from kafkad_lakehouse.export.table_folder import TableFolder
from tests.lakehouse.export.sinks.test_merging import MERGING, named_by_a_run, offsets_of, with_commits
from tests.lakehouse.export.sinks.test_sinks import MAKERS, begun, commit_of
from tests.lakehouse.export.test_latest import batch_of

PARQUET = MAKERS[0]


def logged(path: Path) -> list[str]:
    """The numbers of manifests, and of checkpoints with a c."""
    names = TableFolder(str(path)).names(LOG, recursive=True)
    return [f"{'c' if CHECKPOINTS in name else ''}{int(Path(name).stem)}" for name in names]


def manifest(path: Path, number: int) -> Path:
    return path / LOG / f"{number:020d}.json"


def let_pass(path: Path, seconds: float) -> None:
    """For the checkpoints that are there."""
    for each in (path / CHECKPOINTS).iterdir():
        written_s = each.stat().st_mtime - seconds
        os.utime(each, (written_s, written_s))


def shortened(path: Path, older_than_s: float = 0) -> int:
    return PARQUET(path).shorten_log(older_than_s)


PUBLISHED = "published"


class Interrupted(TableFolder):
    """A folder in which somebody else acts, once: behind the listing of a folder, before a file is read, or behind a
    commit.
    """

    def __init__(self, path: Path, others: Callable[[], object], at: str = LOG) -> None:
        super().__init__(str(path))
        self._others = [others]
        self._at = at

    def names(self, path: str = "", *, recursive: bool = False) -> list[str]:
        names = super().names(path, recursive=recursive)
        self._act(path)
        return names

    def read(self, path: str) -> bytes:
        self._act(path)
        return super().read(path)

    def publish(self, path: str, content: bytes) -> bool:
        done = super().publish(path, content)
        self._act(PUBLISHED)
        return done

    def _act(self, at: str) -> None:
        if at == self._at and self._others:
            self._others.pop()()


def test_a_table_whose_log_is_summed_up_is_as_before_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert shortened(path) == 0 and not path.exists()
    with_commits(PARQUET, path, range(3))
    before, files = begun(PARQUET, path)[1], PARQUET(path).files()
    assert shortened(path) == 2
    assert logged(path) == ["2", "c2"]
    assert begun(PARQUET, path)[1] == before and PARQUET(path).files() == files
    assert PARQUET(path).kept(0) == set(files)
    assert shortened(path) == 0
    with_commits(PARQUET, path, range(3, 5))
    assert offsets_of(PARQUET, path) == [0, 1, 2, 3, 4]
    assert PARQUET(path).merge_small(MERGING) == (5, 1)
    assert shortened(path) == 3
    assert logged(path) == ["5", "c5"]
    assert offsets_of(PARQUET, path) == [0, 1, 2, 3, 4]


def test_what_was_summed_up_stays_for_as_long_as_readers_may_be_in_the_midst_of_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, range(2))
    assert shortened(path, 60) == 0
    with_commits(PARQUET, path, [2])
    let_pass(path, 60)
    assert shortened(path, 60) == 1
    assert logged(path) == ["1", "2", "c1", "c2"]
    assert offsets_of(PARQUET, path) == [0, 1, 2]
    with_commits(PARQUET, path, [3])
    let_pass(path, 60)
    assert shortened(path, 60) == 1
    assert logged(path) == ["2", "3", "c2", "c3"]


def test_while_a_checkpoint_is_young_no_other_one_is_written(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(3):
        with_commits(PARQUET, path, [number])
        assert shortened(path, 60) == 0
    assert logged(path) == ["0", "1", "2", "c0"]
    content = json.loads(manifest(path, 2).read_text())
    for number in range(3, 1_001):
        if number == 1_000:
            assert shortened(path, 60) == 0
            assert logged(path)[-1:] == ["c0"]
        manifest(path, number).write_text(json.dumps({**content, "commit": number, "files": []}))
    assert shortened(path, 60) == 0
    assert logged(path)[-2:] == ["c0", "c1000"]
    assert len(PARQUET(path).files()) == 3


def test_files_that_were_replaced_before_the_log_was_summed_up_stay_as_long(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, range(2))
    replaced = set(PARQUET(path).files())
    PARQUET(path).merge_small(MERGING)
    shortened(path, 60)
    assert logged(path)[-1] == "c2"
    assert PARQUET(path).kept(60) == {*replaced, *PARQUET(path).files()}
    with_commits(PARQUET, path, [2])
    shortened(path)
    assert PARQUET(path).kept(60) == {*replaced, *PARQUET(path).files()}
    remove_orphans(TableFolder(str(path)), PARQUET(path), 0)
    with_commits(PARQUET, path, [3])
    let_pass(path, 60)
    shortened(path, 60)
    assert logged(path)[-1] == "c4"
    assert PARQUET(path).kept(60) == {*replaced, *PARQUET(path).files()}
    with_commits(PARQUET, path, [4])
    shortened(path)
    assert PARQUET(path).kept(60) == set(PARQUET(path).files())


def test_the_latest_of_each_key_is_summed_up(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(3):
        commit_with_rebase(*begun(PARQUET, path), latest(path, number), [0])
    slow = begun(PARQUET, path)
    assert shortened(path) == 2
    assert offsets_of(PARQUET, path) == [2]
    commit_with_rebase(*begun(PARQUET, path), latest(path, 3), [0])
    assert shortened(path) == 1
    with pytest.raises(CommitConflict):
        commit_with_rebase(*slow, latest(path, 3), [0])
    assert offsets_of(PARQUET, path) == [3]


def latest(path: Path, number: int) -> Commit:
    commit = named_by_a_run(path, commit_of(number, number + 1))._replace(keeps=KEEP_LATEST)
    pq.write_table(pa.Table.from_batches([batch_of([(b"k", b"v")], number)]), path / commit.files[0].path)
    return commit


@pytest.mark.parametrize("has_files", [True, False])
@pytest.mark.parametrize("began", [0, 1, 2])
def test_who_is_slower_than_all_that_makes_no_commit_anew(began: int, has_files: bool, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, range(began))
    slow = [begun(PARQUET, path) for _ in range(2)]
    with_commits(PARQUET, path, range(began, 4))
    slow.append(begun(PARQUET, path))
    with_commits(PARQUET, path, range(4, 6))
    shortened(path)
    for number, (sink, seen) in zip((began, began, 4), slow, strict=True):
        commit = commit_of(number, number + 2)
        with pytest.raises(CommitConflict):
            commit_with_rebase(sink, seen, commit if has_files else commit._replace(files=[]), [0])
        assert offsets_of(PARQUET, path) == [0, 1, 2, 3, 4, 5]
        assert begun(PARQUET, path)[1].offsets == {0: 6}
    with_commits(PARQUET, path, [6])
    shortened(path)
    assert logged(path) == ["6", "c6"]


def test_who_exports_other_partitions_commits_behind_however_slow(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, [0])
    sink, seen = begun(PARQUET, path)
    with_commits(PARQUET, path, range(1, 4))
    shortened(path)
    (file,) = commit_of(0, 1).files
    other = commit_of(0, 1)._replace(
        ranges=[OffsetRange(1, 0, 1)], files=[file._replace(path="t-1-0-1.parquet", partition=1)]
    )
    commit_with_rebase(sink, seen, other, [0, 1])
    assert begun(PARQUET, path)[1].offsets == {0: 4, 1: 1}
    assert "t-1-0-1.parquet" in PARQUET(path).files()


def test_a_commit_that_is_summed_up_at_once_was_made(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, range(2))

    def others() -> None:
        with_commits(PARQUET, path, range(3, 5))
        shortened(path)

    sink = ParquetSink(Interrupted(path, others, at=PUBLISHED))
    assert sink.commit(begun(PARQUET, path)[1], named_by_a_run(path, commit_of(2, 3))) == 2
    assert logged(path) == ["4", "c4"]
    assert offsets_of(PARQUET, path) == [0, 1, 2, 3, 4]


def test_a_merge_that_is_summed_up_at_once_was_made(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, range(2))

    def others() -> None:
        with_commits(PARQUET, path, [2])
        shortened(path)

    assert ParquetSink(Interrupted(path, others, at=PUBLISHED)).merge_small(MERGING) == (2, 1)
    assert offsets_of(PARQUET, path) == [0, 1, 2] and len(PARQUET(path).files()) == 2


@pytest.mark.parametrize("summed_up_before", [False, True])
def test_a_reader_whose_manifests_are_removed_meanwhile_looks_again(summed_up_before: bool, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, range(2))
    if summed_up_before:
        shortened(path)

    def others() -> None:
        with_commits(PARQUET, path, range(2, 4))
        shortened(path)

    files = ParquetSink(Interrupted(path, others)).files()
    assert files == PARQUET(path).files() and len(files) == 4
    with_commits(PARQUET, path, [4])
    assert ParquetSink(Interrupted(path, lambda: shortened(path))).state([0]).offsets == {0: 5}


def test_a_run_whose_newest_manifest_is_removed_meanwhile_looks_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, range(2))

    def others() -> None:
        with_commits(PARQUET, path, [2])
        shortened(path)

    assert ParquetSink(Interrupted(path, others)).state([0]).offsets == {0: 3}


@pytest.mark.parametrize("at", [CHECKPOINTS, f"{LOG}/{0:020d}.json"])
def test_a_reader_that_is_slower_than_all_that_takes_no_such_commit_for_one(at: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, [0])
    anew = manifest(path, 0).read_text().replace('"rows": 1', '"rows": 2')

    def others() -> None:
        with_commits(PARQUET, path, [1])
        shortened(path)
        manifest(path, 0).write_text(anew)

    table = ManifestLog(Interrupted(path, others, at)).table()
    assert table is not None and [each.rows for each in table.files] == [1, 1]
    assert logged(path) == ["0", "1", "c1"]


def test_a_run_that_is_slower_than_all_that_begins_behind_no_such_commit(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, [0])
    anew = manifest(path, 0).read_text()

    def others() -> None:
        with_commits(PARQUET, path, [1])
        shortened(path)
        manifest(path, 0).write_text(anew)

    assert ParquetSink(Interrupted(path, others, f"{LOG}/{0:020d}.json")).state([0]).offsets == {0: 2}


def test_where_all_manifests_are_gone_and_a_checkpoint_is_there_one_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, range(2))
    shortened(path)
    manifest(path, 1).unlink()
    with pytest.raises(ExportFailed, match=f"{LOG}/{1:020d}.json, a commit of the table, is missing"):
        begun(PARQUET, path)


@pytest.mark.parametrize(
    "name", ["{:020d}_conflict.json", "{:020d} (1).json", "{:021d}.json", "{:019d}\u0661.json", "{:020d}.json.part"]
)
def test_files_of_other_names_are_somebody_elses(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, range(2))
    shortened(path)
    with_commits(PARQUET, path, [2])
    copies = {path / folder / name.format(number) for folder, number in ((LOG, 1), (LOG, 2), (CHECKPOINTS, 1))}
    for each in copies:
        each.write_bytes((each.parent / f"{1:020d}.json").read_bytes())
    assert offsets_of(PARQUET, path) == [0, 1, 2]
    assert begun(PARQUET, path)[1].offsets == {0: 3}
    assert shortened(path) == 1
    assert offsets_of(PARQUET, path) == [0, 1, 2]
    there = {each for each in (path / LOG).rglob("*") if each.is_file()}
    assert there == {*copies, manifest(path, 2), path / CHECKPOINTS / f"{2:020d}.json"}


class WithoutSizes(TableFolder):
    """One request for each file are many."""

    def size(self, path: str) -> int | None:
        raise ExportFailed(path)


def test_of_replaced_files_a_checkpoint_names_those_that_are_there(tmp_path: Path) -> None:
    log = ManifestLog(WithoutSizes(str(tmp_path)))
    there = ["1.parquet", "date=2026-11-25/2.parquet", "date=2026-11-26/hour=09/3.parquet"]
    for each in there:
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text("")
    gone = ["4.parquet", "date=2026-11-24/5.parquet", "date=2026-11-26/hour=10/6.parquet"]
    assert log.publish(0, {"format": 1, "commit": 0, "files": [], "time_ms": 1, "replaced": [*there, *gone]}, ())
    log.write_checkpoint(0)
    table = log.table()
    assert table is not None and table.replaced_ms == dict.fromkeys(there, 1)


def test_a_commit_behind_which_nothing_can_be_read_was_made_and_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, [0])
    sink = ParquetSink(Interrupted(path, (path / CHECKPOINTS).touch, at=PUBLISHED))
    with pytest.raises(ExportFailed, match=r"the records were committed, but .* can't be read"):
        sink.commit(begun(PARQUET, path)[1], named_by_a_run(path, commit_of(1, 2)))
    (path / CHECKPOINTS).unlink()
    assert offsets_of(PARQUET, path) == [0, 1]


@pytest.mark.parametrize("lost", [2, 3])
def test_a_manifest_that_no_checkpoint_has_and_somebody_has_removed_is_missing(lost: int, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with_commits(PARQUET, path, range(2))
    shortened(path)
    with_commits(PARQUET, path, range(2, 5))
    name = f"{LOG}/{lost:020d}.json"
    (path / name).unlink()
    with pytest.raises(ExportFailed, match=f"{name}, a commit of the table, is missing"):
        PARQUET(path).files()


def test_what_manifests_of_earlier_versions_do_not_say_is_known_when_they_are_summed_up(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(2):
        sink, state = begun(PARQUET, path)
        (file,) = commit_of(number, number + 1).files
        sink.commit(state, commit_of(number, number + 1)._replace(files=[file._replace(date="2026-11-26")]))
    sink, state = begun(PARQUET, path)
    sink.commit(state, commit_of(2, 3)._replace(files=[]))
    for manifest in (path / LOG).glob("*.json"):
        content = json.loads(manifest.read_text())
        del content["partition_by"]
        manifest.write_text(json.dumps(content))
    assert begun(PARQUET, path)[1].partition_by == "day"
    assert shortened(path) == 2
    assert begun(PARQUET, path)[1].partition_by == "day"


@pytest.mark.parametrize("content", ["[]", "null", "1", "{"])
def test_a_manifest_of_another_form_is_damaged(content: str, tmp_path: Path) -> None:
    with_commits(PARQUET, tmp_path / "t", range(1))
    manifest(tmp_path / "t", 0).write_text(content)
    with pytest.raises(ExportFailed, match=r"_kafkad_log/0+\.json is damaged"):
        begun(PARQUET, tmp_path / "t")
