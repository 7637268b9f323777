"""What tasks return is committed only if it is what was planned, whoever lost, doubled or cut something on the way."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS
from kafkad_lakehouse.export.coverage import Manifest, Returned, check_coverage, returned_from_json
from kafkad_lakehouse.export.engines.local import run_here
from kafkad_lakehouse.export.preparation import prepare
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.run import run_export
from kafkad_lakehouse.export.tables import open_sink
from kafkad_lakehouse.export.task import Task
from kafkad_lakehouse.export.writing import WrittenFile
from tests.lakehouse.export.from_files import from_files
from tests.lakehouse.export.reading.test_log_directories import checkpoint, partition, plain


def written(
    first: int,
    last: int,
    *,
    rows: int | None = None,
    partition: int = 0,
    hour: str | None = None,
    is_dead: bool = False,
) -> WrittenFile:
    rows = last + 1 - first if rows is None else rows
    date = None if hour is None else "2026-01-01"
    name = f"{partition}-{first}-{last}-{hour}-{is_dead}"
    return WrittenFile(name, 1, partition, first, last, rows, 1, 1, date=date, hour=hour, is_dead_letters=is_dead)


class Run(NamedTuple):
    planned: list[OffsetRange]
    manifests: list[Manifest]
    files: list[WrittenFile]

    def check(self) -> None:
        check_coverage(self.planned, self.manifests, self.files)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Ranges of some partitions, cut anywhere; each piece has files with gaps between them, or none."""
    run = Run([], [], [])
    for number in draw(st.sets(st.integers(0, 5), min_size=1, max_size=3)):
        start = draw(st.integers(0, 1_000))
        whole = OffsetRange(number, start, start + draw(st.integers(1, 60)))
        run.planned.append(whole)
        cuts = draw(st.sets(st.integers(whole.start, whole.end), max_size=3))
        for begin, end in pairwise(sorted({whole.start, whole.end, *cuts})):
            edges = sorted(draw(st.sets(st.integers(begin, end - 1), max_size=6)))
            pairs = list(zip(edges[::2], edges[1::2], strict=False))
            files = [
                written(*each, rows=draw(st.integers(1, each[1] + 1 - each[0])), partition=number) for each in pairs
            ]
            dead = [written(*each, rows=1, partition=number, is_dead=True) for each in pairs[:1]]
            run.files.extend([*files, *dead])
            rows = sum(each.rows for each in files)
            run.manifests.append(Manifest(OffsetRange(number, begin, end), len(files) + len(dead), rows, len(dead)))
    return run._replace(manifests=draw(st.permutations(run.manifests)), files=draw(st.permutations(run.files)))


Item = TypeVar("Item", Manifest, WrittenFile)


def lost(items: Sequence[Item], at: int) -> list[Item]:
    kept = list(items)
    del kept[at]
    return kept


def doubled(items: Sequence[Item], at: int) -> list[Item]:
    more = list(items)
    more.append(items[at])
    return more


def changed(items: Sequence[Item], at: int, **values: Any) -> list[Item]:
    others = list(items)
    others[at] = items[at]._replace(**values)
    return others


@given(runs(), st.data())
def test_nothing_may_be_lost_doubled_or_cut(run: Run, data: st.DataObject) -> None:
    run.check()
    manifests, files = run.manifests, run.files
    at = data.draw(st.integers(0, len(manifests) - 1))
    each = manifests[at]
    (number, start, end) = each.range
    wrong = [
        run._replace(manifests=lost(manifests, at)),
        run._replace(manifests=doubled(manifests, at)),
        run._replace(manifests=changed(manifests, at, range=OffsetRange(number, start, end - 1))),
        run._replace(manifests=changed(manifests, at, range=OffsetRange(number, start + 1, end))),
        run._replace(manifests=changed(manifests, at, range=OffsetRange(number, start, end + 1))),
        run._replace(manifests=changed(manifests, at, range=OffsetRange(number + 9, start, end))),
        run._replace(manifests=changed(manifests, at, records=each.records + 1)),
        run._replace(manifests=changed(manifests, at, dead_letters=each.dead_letters + 1)),
        run._replace(manifests=changed(manifests, at, files=each.files + 1)),
        run._replace(planned=[*run.planned, OffsetRange(9, 0, 1)]),
    ]
    if files:
        at = data.draw(st.integers(0, len(files) - 1))
        file = files[at]
        wrong += [
            run._replace(files=lost(files, at)),
            run._replace(files=doubled(files, at)),
            run._replace(files=changed(files, at, rows=file.rows + 1)),
            run._replace(files=changed(files, at, partition=file.partition + 9)),
            run._replace(files=changed(files, at, is_dead_letters=not file.is_dead_letters)),
        ]
    for broken in wrong:
        with pytest.raises(
            ExportFailed, match=r"^the results of the tasks differ from the plan, so nothing was committed"
        ):
            broken.check()


CUTS = st.lists(st.integers(0, 12), min_size=2, max_size=8, unique=True).map(sorted)


@given(st.dictionaries(st.integers(0, 3), CUTS), st.dictionaries(st.integers(0, 3), CUTS))
def test_ranges_that_are_missing_or_too_many_are_noticed_wherever_they_are_cut(
    planned: dict[int, list[int]], returned: dict[int, list[int]]
) -> None:
    """Every second pair of neighbours is a range, or every pair."""
    wanted = [OffsetRange(number, *pair) for number, cuts in planned.items() for pair in pairwise(cuts)]
    found = [OffsetRange(number, *pair) for number, cuts in returned.items() for pair in list(pairwise(cuts))[::2]]
    manifests = [Manifest(each, 0, 0, 0) for each in found]
    missing, too_many = offsets(wanted) - offsets(found), offsets(found) - offsets(wanted)
    if missing or too_many:
        (number, offset), said = (min(missing), "are missing") if missing else (min(too_many), "were not requested")
        with pytest.raises(ExportFailed, match=rf"offsets {offset} to \d+ of partition {number} {said}"):
            check_coverage(wanted, manifests, [])
    else:
        check_coverage(wanted, manifests, [])


def offsets(ranges: Sequence[OffsetRange]) -> set[tuple[int, int]]:
    return {(each.partition, offset) for each in ranges for offset in range(each.start, each.end)}


def test_a_plan_of_many_partitions_is_compared_in_one_walk() -> None:
    """Each with each would be 20 billion pairs, which no test has time for."""
    planned = [OffsetRange(number, 0, 10) for number in range(100_000)]
    pieces = [OffsetRange(number, *pair) for number in range(100_000) for pair in ((0, 5), (5, 10))]
    check_coverage(planned, [Manifest(each, 0, 0, 0) for each in pieces], [])


@given(runs())
def test_what_is_returned_survives_its_way_to_the_driver(run: Run) -> None:
    returned: list[Returned] = [*run.manifests, *run.files]
    assert [returned_from_json(each.to_json()) for each in returned] == returned


WHOLE = [OffsetRange(0, 0, 9)]


def manifest_of(*files: WrittenFile, start: int = 0, end: int = 9) -> Manifest:
    dead = sum(file.rows for file in files if file.is_dead_letters)
    return Manifest(OffsetRange(0, start, end), len(files), sum(file.rows for file in files) - dead, dead)


@pytest.mark.parametrize(
    ("manifests", "said"),
    [
        ([], "offsets 0 to 8 of partition 0 are missing"),
        ([manifest_of(end=5), manifest_of(start=6)], "offsets 5 to 5 of partition 0 are missing"),
        ([manifest_of(end=5), manifest_of(start=4)], "offsets 4 to 4 of partition 0 were returned twice"),
        ([manifest_of(end=12)], "offsets 9 to 11 of partition 0 were not requested"),
        (
            [manifest_of(written(0, 3))],
            "offsets 0 to 8 of partition 0 should be 4 records and 0 dead letters in 1 files, but 0 records and 0 dead"
            " letters in 0 files were returned",
        ),
    ],
)
def test_what_is_wrong_is_named(manifests: list[Manifest], said: str) -> None:
    with pytest.raises(ExportFailed, match=said):
        check_coverage(WHOLE, manifests, [])


def test_two_files_with_the_same_offsets_are_not_committed() -> None:
    apart = [written(5, 8), written(0, 4), written(0, 8, rows=3, is_dead=True)]
    hours = [written(0, 8, rows=5, hour="01"), written(1, 7, rows=2, hour="02")]
    for files in (apart, hours):
        check_coverage(WHOLE, [manifest_of(*files)], files)
    for files, said in (
        ([*apart, written(4, 6)], "0-0-4-None-False and 0-4-6-None-False have the same offsets"),
        ([written(0, 8, rows=5, hour="01"), written(1, 7, rows=2, hour="01")], "have the same offsets"),
    ):
        with pytest.raises(ExportFailed, match=said):
            check_coverage(WHOLE, [manifest_of(*files)], files)


def without_the_last_manifest(returned: list[Returned]) -> list[Returned]:
    last = max(at for at, each in enumerate(returned) if isinstance(each, Manifest))
    return [*returned[:last], *returned[last + 1 :]]


def without_a_file(returned: list[Returned]) -> list[Returned]:
    return [each for each in returned if not (isinstance(each, WrittenFile) and each.partition == 1)]


def with_a_task_twice(returned: list[Returned]) -> list[Returned]:
    return [*returned, *returned[:2]]


@pytest.mark.parametrize("table", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("on_the_way", [without_the_last_manifest, without_a_file, with_a_task_twice])
def test_a_run_that_misses_something_commits_nothing_and_the_next_one_everything(
    tmp_path: Path, table: str, on_the_way: Callable[[list[Returned]], list[Returned]]
) -> None:
    for number in range(2):
        partition(tmp_path / "log", f"t-{number}", *map(plain, range(4)))
    checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=4, p1=4)
    out = tmp_path / "table"
    asked = from_files(tmp_path, format=table)
    sink = open_sink(asked)
    prepared = prepare(asked, sink)
    with pytest.raises(ExportFailed, match="the results of the tasks differ from the plan"):
        run_export(prepared, sink, lambda tasks: on_the_way(list(run_here(tasks, 1))), lambda _file: None)
    assert not [path for path in out.rglob("*") if path.is_file()]
    sink = open_sink(asked)
    assert sink.state([0, 1]).topic_id is None
    run_export(prepare(asked, sink), sink, lambda tasks: run_here(tasks, 1), lambda _file: None)
    assert open_sink(asked).state([0, 1]).offsets == {0: 4, 1: 4}


@pytest.mark.parametrize("table", ["parquet", "delta", "iceberg"])
def test_a_run_whose_files_are_on_another_machine_commits_nothing(tmp_path: Path, table: str) -> None:
    partition(tmp_path / "log", "t-0", *map(plain, range(4)))
    checkpoint(tmp_path / "log", HIGH_WATERMARKS, p0=4)
    asked = from_files(tmp_path, format=table)
    sink = open_sink(asked)

    def elsewhere(tasks: Sequence[Task]) -> list[Returned]:
        returned = list(run_here(tasks, 1))
        for path in (tmp_path / "table").rglob("t-*.*"):
            path.rename(tmp_path / path.name)
        return returned

    with pytest.raises(
        ExportFailed, match=r"the driver does not find it, .* all workers and the driver need the same folder"
    ):
        run_export(prepare(asked, sink), sink, elsewhere, lambda _file: None)
    assert open_sink(asked).state([0]).topic_id is None
