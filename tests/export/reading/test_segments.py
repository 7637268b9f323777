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
from kafkad.export.problems import ExportFailed
from kafkad.export.reading import segments
from kafkad.export.reading.segments import OffsetGone, SegmentReader
from kafkad.export.reading.transactions import Aborted

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
    with pytest.raises(OffsetGone):
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
    with pytest.raises(CorruptBatch):
        reader.cuts(0, 30, 100)


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
