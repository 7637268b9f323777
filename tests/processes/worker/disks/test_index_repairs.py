"""Bits that have flipped in the indexes of a log on disk: readers find it, and the owner makes the indexes anew."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.log.records.batch import read_header
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from kafkad.core.log.segments.index_repair import BATCHES_A_STEP
from kafkad.core.log.segments.layout import LOG, OFFSET_INDEX, TIME_INDEX, file_name
from kafkad.core.log.segments.segment import Segment
from tests.processes.pieces import TOPIC, Client, Pieces
from tests.tools.raw_requests import batch, fetch, list_offsets, produce, read_fetched, read_produced

LONG_MS = 60_000
START_MS = 1_700_000_000_000
BATCHES = 50
MakePieces = Callable[..., Pieces]


def _broker(make_pieces: MakePieces) -> tuple[Pieces, Client]:
    """Partition 0 has a sealed segment with an entry for every other batch, and an active one."""
    pieces = make_pieces(log_index_interval_bytes="100")
    client = pieces.connect()
    for number in range(BATCHES):
        assert read_produced(client.ask(produce({(TOPIC, 0): _at(number)})))[TOPIC, 0].error == 0
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    assert owned.log is not None
    owned.log.roll(owned.log.log_end_offset, 0)
    pieces.worker.outbox.touched(owned)
    assert read_produced(client.ask(produce({(TOPIC, 0): _at(BATCHES)})))[TOPIC, 0].error == 0
    return pieces, client


def _at(number: int) -> bytes:
    return bytes(build_batch([NewRecord(START_MS + number, None, bytes(60))]))


def _segment(pieces: Pieces) -> Segment:
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    assert owned.log is not None
    return owned.log.segments[0]


def _first(client: Client, offset: int) -> int:
    found = read_fetched(client.ask(fetch({(TOPIC, 0): offset}, max_wait_ms=LONG_MS)))[TOPIC, 0]
    assert found.error == 0
    return read_header(found.records).base_offset


def _flip(path: Path, at: int, bit: int) -> bytes:
    """Returns what the file was before."""
    before = path.read_bytes()
    content = bytearray(before)
    content[at] ^= 1 << bit
    path.write_bytes(content)
    return before


def _lines(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if part in record.getMessage()]


def test_a_consumer_gets_each_record_although_the_index_names_a_later_batch(
    make_pieces: MakePieces, caplog: pytest.LogCaptureFixture
) -> None:
    pieces, client = _broker(make_pieces)
    path = pieces.directory() / file_name(0, OFFSET_INDEX)
    entries = list(OFFSET_ENTRY.iter_unpack(path.read_bytes()))
    before = path.read_bytes()
    path.write_bytes(b"".join(OFFSET_ENTRY.pack(first, entries[-1][1]) for first, _ in entries))
    generation = pieces.published().generation
    assert [_first(client, offset) for offset in range(BATCHES)] == list(range(BATCHES))
    assert path.read_bytes() == before
    (line,) = _lines(caplog, "rebuilt")
    assert line.startswith(f"{TOPIC}-0: ") and file_name(0, OFFSET_INDEX) in line
    assert pieces.published().generation == generation + 1


def test_a_consumer_gets_each_record_although_the_index_names_no_batch(
    make_pieces: MakePieces, caplog: pytest.LogCaptureFixture
) -> None:
    pieces, client = _broker(make_pieces)
    path = pieces.directory() / file_name(0, OFFSET_INDEX)
    before = _flip(path, 8 * 5 + 7, 0)
    assert [_first(client, offset) for offset in range(BATCHES)] == list(range(BATCHES))
    assert path.read_bytes() == before
    assert len(_lines(caplog, "rebuilt")) == 1


def test_a_search_by_time_finds_the_record_although_the_time_index_is_wrong(
    make_pieces: MakePieces, caplog: pytest.LogCaptureFixture
) -> None:
    pieces, client = _broker(make_pieces)
    path = pieces.directory() / file_name(0, TIME_INDEX)
    last = path.stat().st_size - TIME_ENTRY.size
    before = _flip(path, last, 6)
    body = client.ask(list_offsets(TOPIC, 0, START_MS + 7))
    assert int.from_bytes(body[-8:], "big") == 7
    assert path.read_bytes() == before
    (line,) = _lines(caplog, "rebuilt")
    assert file_name(0, TIME_INDEX) in line


def test_a_batch_that_is_damaged_where_the_index_names_it_is_no_fault_of_the_index(
    make_pieces: MakePieces, caplog: pytest.LogCaptureFixture
) -> None:
    pieces, client = _broker(make_pieces)
    index = pieces.directory() / file_name(0, OFFSET_INDEX)
    before = index.read_bytes()
    entries = list(OFFSET_ENTRY.iter_unpack(before))
    offset, position = entries[5]
    _flip(pieces.directory() / file_name(0, LOG), position + 16, 4)
    for _ in range(3):
        body = client.ask(fetch({(TOPIC, 0): offset}, max_wait_ms=LONG_MS))
        assert read_fetched(body)[TOPIC, 0].error == ErrorCode.CORRUPT_MESSAGE
    assert _first(client, entries[6][0]) == entries[6][0]
    assert index.read_bytes() == before
    assert _segment(pieces).is_index_checked
    assert not _lines(caplog, "rebuilt")
    assert len(_lines(caplog, "can't read")) == 1


def test_an_index_is_made_anew_in_steps(make_pieces: MakePieces) -> None:
    pieces, client = _broker(make_pieces)
    for first in range(BATCHES + 1, 3 * BATCHES_A_STEP, 100):
        for number in range(first, first + 100):
            client.send(produce({(TOPIC, 0): _at(number)}))
        for _ in range(100):
            client.reply()
    path = pieces.directory() / file_name(BATCHES, OFFSET_INDEX)
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    assert owned.log is not None
    owned.log.segments.active.flush_indexes()
    _flip(path, 8 * 5 + 7, 0)
    relative = OFFSET_ENTRY.unpack_from(path.read_bytes(), 8 * 5)[0]
    client.send(fetch({(TOPIC, 0): BATCHES + relative}, max_wait_ms=LONG_MS))
    other = pieces.connect()
    assert read_produced(other.ask(produce({(TOPIC, 1): batch()})))[TOPIC, 1].error == 0
    body = client.reply()
    assert read_header(read_fetched(body)[TOPIC, 0].records).base_offset == BATCHES + relative
