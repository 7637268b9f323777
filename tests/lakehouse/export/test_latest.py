"""The latest of each key: reduced while it is read, merged into the table, and the same however the runs are cut."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkad_lakehouse.export.latest import latest_of
from kafkad_lakehouse.export.problems import CommitConflict, ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.request import KEEP_LATEST, ExportRequest
from kafkad_lakehouse.export.schema import RECORDS
from kafkad_lakehouse.export.sinks.sink import Commit, Sink, TableState
from kafkad_lakehouse.export.tables import open_sink
from kafkad_lakehouse.export.writing import WrittenFile
from tests.amounts import amount

Record = tuple[bytes | None, bytes | None]


def batch_of(records: Sequence[Record], first_offset: int = 0) -> pa.RecordBatch:
    count = len(records)
    columns = {name: pa.nulls(count, RECORDS.field(name).type) for name in RECORDS.names}
    columns |= {
        "key": pa.array([key for key, _ in records], pa.binary()),
        "value": pa.array([value for _, value in records], pa.binary()),
        "topic": pa.array(["t"] * count),
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(first_offset, first_offset + count), pa.int64()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in RECORDS.names], schema=RECORDS)


def rows_of(batches: Sequence[pa.RecordBatch]) -> list[tuple[bytes, bytes | None, int]]:
    return [(row["key"], row["value"], row["offset"]) for batch in batches for row in batch.to_pylist()]


def expected(records: Sequence[Record]) -> dict[bytes | None, tuple[bytes, int]]:
    found: dict[bytes | None, tuple[bytes, int]] = {}
    for offset, (key, value) in enumerate(records):
        found.pop(key, None)
        if value is not None:
            found[key] = value, offset
    return found


def test_the_latest_of_each_key_is_kept_in_the_order_of_offsets() -> None:
    batches = [batch_of([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]), batch_of([(b"c", b"4"), (b"b", None)], 3)]
    assert rows_of([*latest_of(batches, drops_tombstones=False)]) == [(b"a", b"3", 2), (b"c", b"4", 3), (b"b", None, 4)]
    assert rows_of([*latest_of(batches, drops_tombstones=True)]) == [(b"a", b"3", 2), (b"c", b"4", 3)]
    assert [*latest_of([], drops_tombstones=True)] == []


def test_a_record_without_key_is_named() -> None:
    with pytest.raises(ExportFailed, match="t-0: the record at offset 6 has no key"):
        list(latest_of([batch_of([(b"a", b"1"), (None, b"2")], 5)], drops_tombstones=True))


KINDS = pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])


class Table:
    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self._wanted = ExportRequest(topic="t", out=str(path), name="t", bootstrap="", format=kind, keeps=KEEP_LATEST)

    def begun(self) -> tuple[Sink, TableState]:
        sink = open_sink(self._wanted)
        return sink, sink.state([0])

    def commit(self, begun: tuple[Sink, TableState], records: Sequence[Record], start: int) -> None:
        sink, state = begun
        batches = [batch_of(records, start)] if records else []
        latest = [*latest_of(batches, drops_tombstones=not state.offsets)]
        files = []
        if latest:
            self.path.mkdir(exist_ok=True)
            path = f"t-0-{start}-{len(records)}.parquet"
            table = pa.Table.from_batches(latest)
            pq.write_table(table, self.path / path)
            size = (self.path / path).stat().st_size
            files.append(WrittenFile(path, size, 0, start, start + len(records) - 1, table.num_rows, None, None))
        ranges = [OffsetRange(0, start, start + len(records))]
        run = f"20261123T120000-{start:08d}"
        sink.commit(state, Commit("c", UUID(int=7), "t", ranges, [], files, run, {}, keeps=KEEP_LATEST))

    def rows(self) -> dict[bytes | None, tuple[bytes, int]]:
        rows = [row for name in self.begun()[0].files() for row in pq.ParquetFile(self.path / name).read().to_pylist()]
        assert len({row["key"] for row in rows}) == len(rows)
        return {row["key"]: (row["value"], row["offset"]) for row in rows}


RECORD = st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.sampled_from([None, b"x", b"y"]))


@KINDS
@settings(max_examples=amount("export_table_examples"))
@given(records=st.lists(RECORD, min_size=1, max_size=12), cuts=st.sets(st.integers(1, 11), max_size=2))
def test_a_table_is_the_same_however_the_runs_are_cut(
    tmp_path_factory: pytest.TempPathFactory, kind: str, records: list[Record], cuts: set[int]
) -> None:
    table = Table(tmp_path_factory.mktemp("table") / "t", kind)
    edges = sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})
    for start, end in pairwise(edges):
        table.commit(table.begun(), records[start:end], start)
        _, state = table.begun()
        assert (state.offsets, state.keeps) == ({0: end}, KEEP_LATEST)
        assert table.rows() == expected(records[:end])
    left = {path.name for path in table.path.glob("*.parquet")}
    assert left >= set(table.begun()[0].files())


@KINDS
def test_of_two_merges_that_race_one_commits(kind: str, tmp_path: Path) -> None:
    table = Table(tmp_path / "t", kind)
    table.commit(table.begun(), [(b"a", b"1")], 0)
    one, other = table.begun(), table.begun()
    table.commit(one, [(b"a", b"2")], 1)
    with pytest.raises(CommitConflict):
        table.commit(other, [(b"a", b"3"), (b"b", b"3")], 1)
    assert table.rows() == {b"a": (b"2", 1)}
