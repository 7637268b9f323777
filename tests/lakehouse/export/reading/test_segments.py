"""A partition's directory is read as its broker has left it, and while the broker replaces segments."""

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from kafkad.core.log.records.batch import CorruptBatch
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.segments.index import OFFSET_ENTRY
from kafkad.core.log.segments.transaction_index import ENTRY_LAYOUT
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.reading import segments
from kafkad_lakehouse.export.reading.damage import Damaged
from kafkad_lakehouse.export.reading.segments import OffsetMissing, SegmentReader
from kafkad_lakehouse.export.reading.transactions import Aborted

EVERY = 3
"""Batches from one index entry to the next."""


def segment(folder: Path, offsets: Sequence[int], base: int | None = None, suffix: str = "") -> Path:
    """A segment with a batch of one record at each offset, and its index."""
    base = offsets[0] if base is None else base
    log, index = b"", b""
    for number, offset in enumerate(offsets):
        if number and number % EVERY == 0:
            index += OFFSET_ENTRY.pack(offset - base, len(log))
        log += build_batch([NewRecord(1, None, b"v" * 100)], base_offset=offset)
    folder.mkdir(exist_ok=True)
    path = folder / f"{base:020d}.log{suffix}"
    path.write_bytes(log)
    (folder / f"{base:020d}.index{suffix}").write_bytes(index)
    return path


def offsets_in(reader: SegmentReader, start: int, end: int) -> list[int]:
    found = [int(offset) for window in reader.windows(start, end) for offset in window.last_offset]
    return [offset for offset in found if start <= offset < end]


def test_a_range_is_read_over_segments(tmp_path: Path) -> None:
    segment(tmp_path, range(20))
    segment(tmp_path, range(20, 40))
    assert offsets_in(SegmentReader(str(tmp_path)), 7, 33) == list(range(7, 33))


def test_what_is_below_the_first_segment_is_gone(tmp_path: Path) -> None:
    segment(tmp_path, range(20, 40))
    with pytest.raises(OffsetMissing):
        offsets_in(SegmentReader(str(tmp_path)), 7, 33)


@pytest.mark.parametrize("pieces", [1, 3, 7])
def test_cuts_are_first_offsets_of_batches_and_the_pieces_are_of_similar_size(tmp_path: Path, pieces: int) -> None:
    segment(tmp_path, range(200))
    segment(tmp_path, range(200, 400))
    reader = SegmentReader(str(tmp_path))
    whole = reader.size(0, 400)
    assert whole == sum(path.stat().st_size for path in tmp_path.glob("*.log"))
    edges = [0, *reader.cuts(0, 400, whole // pieces), 400]
    assert pieces <= len(edges) - 1 <= pieces + 1
    found = [offsets_in(reader, start, end) for start, end in pairwise(edges)]
    assert [offset for part in found for offset in part] == list(range(400))


def test_an_index_that_lies_cuts_nothing_wrongly(tmp_path: Path) -> None:
    path = segment(tmp_path, range(30))
    path.with_suffix(".index").write_bytes(b"".join(OFFSET_ENTRY.pack(3 * each, 50 * each + 7) for each in range(1, 9)))
    reader = SegmentReader(str(tmp_path))
    assert reader.cuts(0, 30, 100) == []


@pytest.mark.parametrize("ends_sealed", [True, False], ids=["sealed", "active"])
def test_a_bit_that_has_flipped_in_an_index_hides_no_record(tmp_path: Path, *, ends_sealed: bool) -> None:
    path = segment(tmp_path, range(20))
    if ends_sealed:
        segment(tmp_path, range(20, 25))
    index = path.with_suffix(".index")
    right = index.read_bytes()
    for bit in range(8 * len(right)):
        content = bytearray(right)
        content[bit // 8] ^= 1 << bit % 8
        index.write_bytes(content)
        reader = SegmentReader(str(tmp_path))
        for start, end in ((0, 20), (7, 12), (13, 18), (19, 20)):
            assert offsets_in(reader, start, end) == list(range(start, end))


def test_segments_that_are_being_replaced_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old ones have lost their names, the new one has none yet: nothing is left out silently."""
    segment(tmp_path, range(20))
    swap = segment(tmp_path, [20, 25, 39], suffix=".swap")
    segment(tmp_path, range(40, 60))
    monkeypatch.setattr(time, "sleep", lambda _s: swap.rename(tmp_path / swap.stem))
    assert offsets_in(SegmentReader(str(tmp_path)), 0, 60) == [*range(20), 20, 25, 39, *range(40, 60)]


def test_a_replacement_that_does_not_end_is_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_SWAP_S", 0.0)
    segment(tmp_path, range(20))
    segment(tmp_path, range(20, 40), suffix=".swap")
    with pytest.raises(ExportFailed, match="are being replaced"):
        offsets_in(SegmentReader(str(tmp_path)), 0, 40)


def test_aborted_transactions_of_a_range(tmp_path: Path) -> None:
    segment(tmp_path, range(20))
    segment(tmp_path, range(20, 40))
    rows = [(7, 3, 9, 10), (8, 5, 30, 31), (9, 35, 36, 37)]
    (tmp_path / f"{0:020d}.txnindex").write_bytes(ENTRY_LAYOUT.pack(0, *rows[0]))
    (tmp_path / f"{20:020d}.txnindex").write_bytes(b"".join(ENTRY_LAYOUT.pack(0, *row) for row in rows[1:]))
    reader = SegmentReader(str(tmp_path))
    assert reader.aborted(0, 40) == [Aborted(7, 3, 9), Aborted(8, 5, 30), Aborted(9, 35, 36)]
    assert reader.aborted(12, 33) == [Aborted(8, 5, 30)]


def damage(path: Path, batch: int, byte: int, batches: int = 20) -> None:
    """Change a byte of a batch; all of them have the same size."""
    content = bytearray(path.read_bytes())
    content[batch * len(content) // batches + byte] ^= 0x10
    path.write_bytes(content)


BASE_OFFSET, LENGTH, MAGIC, VALUE = 0, 8, 16, 90
SOME = (0, 4, 9, 10, 17, 18, 19)
DAMAGES = [
    (batch, byte, is_sealed)
    for batch in SOME
    for byte in (BASE_OFFSET, LENGTH, MAGIC, VALUE)
    for is_sealed in (True, False)
    # Of the very last batch nobody can know that its offset was not as large.
    if (batch, byte, is_sealed) != (19, BASE_OFFSET, False)
]


@pytest.mark.parametrize(("batch", "byte", "is_sealed"), DAMAGES)
def test_no_damage_hides_the_batches_that_follow(tmp_path: Path, batch: int, byte: int, *, is_sealed: bool) -> None:
    """In particular behind the last entry of the index, where only the headers say how the file goes on."""
    path = segment(tmp_path, range(20))
    if is_sealed:
        segment(tmp_path, range(20, 40))
    damage(path, batch, byte)
    with pytest.raises(CorruptBatch):
        offsets_in(SegmentReader(str(tmp_path)), 0, 40 if is_sealed else 20)


def set_aside(folder: Path, start: int, end: int) -> tuple[list[int], list[Damaged]]:
    offsets: list[int] = []
    damaged: list[Damaged] = []
    for piece in SegmentReader(str(folder)).pieces(start, end):
        if isinstance(piece, Damaged):
            damaged.append(piece)
        else:
            offsets += [int(each) for each in piece.last_offset if start <= each < end]
    return offsets, [each for each in damaged if start <= each.offset < end]


@pytest.mark.parametrize("byte", [LENGTH, MAGIC, VALUE])
@pytest.mark.parametrize("batch", SOME)
def test_what_is_damaged_is_set_aside_with_its_bytes(tmp_path: Path, batch: int, byte: int) -> None:
    path = segment(tmp_path, range(20))
    segment(tmp_path, range(20, 40))
    damage(path, batch, byte)
    offsets, (damaged,) = set_aside(tmp_path, 0, 40)
    # With a wrong length everything up to the next place that the index knows.
    behind = batch + 1 if byte == VALUE else min((batch // EVERY + 1) * EVERY, 20)
    behind = 20 if behind > 18 and byte != VALUE else behind
    assert (damaged.offset, damaged.end) == (batch, behind)
    assert offsets == [*range(batch), *range(behind, 40)]
    size = path.stat().st_size // 20
    assert damaged.data == path.read_bytes()[batch * size : behind * size]
    assert f"at byte {batch * size}: {path}: " in damaged.reason


@pytest.mark.parametrize("byte", [LENGTH, MAGIC, VALUE])
@pytest.mark.parametrize("batches", [(4,), (4, 5), (8, 9), (2, 3, 12), (19,)])
def test_tasks_that_divide_a_range_set_each_piece_aside_once(
    tmp_path: Path, batches: tuple[int, ...], byte: int
) -> None:
    path = segment(tmp_path, range(20))
    segment(tmp_path, range(20, 40))
    for batch in batches:
        damage(path, batch, byte)
    whole = set_aside(tmp_path, 0, 40)
    for place in range(1, 40):
        parts = [set_aside(tmp_path, 0, place), set_aside(tmp_path, place, 40)]
        assert [offset for offsets, _ in parts for offset in offsets] == whole[0]
        assert [each.offset for _, pieces in parts for each in pieces] == [each.offset for each in whole[1]]


def test_where_the_segment_that_is_written_to_can_not_be_followed_nothing_is_set_aside(tmp_path: Path) -> None:
    path = segment(tmp_path, range(20))
    damage(path, 18, LENGTH)
    with pytest.raises(CorruptBatch):
        set_aside(tmp_path, 0, 20)
    damage(path, 18, LENGTH)
    damage(path, 18, VALUE)
    offsets, damaged = set_aside(tmp_path, 0, 20)
    assert (offsets, [each.offset for each in damaged]) == ([*range(18), 19], [18])


def test_a_batch_with_an_offset_that_can_not_be_is_no_piece(tmp_path: Path) -> None:
    path = segment(tmp_path, range(20))
    segment(tmp_path, range(20, 40))
    damage(path, 19, BASE_OFFSET)
    with pytest.raises(CorruptBatch, match="beyond its segment"):
        set_aside(tmp_path, 0, 40)
