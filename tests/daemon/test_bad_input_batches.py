"""Damaged, oversized and miscounted batches, sent to a real broker: refused with the right code, and never stored."""

import struct
from collections.abc import Iterator

import pytest
from crc32c import crc32c

from tests.daemon.served import Served
from tests.tools.raw_requests import RawClient, batch, fetch, produce, read_fetched, read_produced

OFFSET_OUT_OF_RANGE, CORRUPT, UNKNOWN_TOPIC, TOO_LARGE, INVALID_TOPIC = 1, 2, 3, 10, 17
UNSUPPORTED_COMPRESSION, INVALID_RECORD, UNKNOWN_TOPIC_ID, INVALID_TIMESTAMP, OUT_OF_ORDER = 76, 87, 100, 32, 45
BASE_OFFSET, LENGTH, LEADER_EPOCH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA, COUNT, RECORDS = 0, 8, 12, 16, 17, 21, 23, 57, 61
OUTSIDE_CRC = range(LEADER_EPOCH, MAGIC)
"""What the broker overwrites anyway. Nothing else of a batch may be flipped unnoticed."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    overrides = {"message.max.bytes": "100000", "auto.create.topics.enable": "false"}
    with Served(tmp_path_factory.mktemp("broker"), overrides, partitions=3) as broker:
        yield broker


def _end(client: RawClient, partition: int = 0) -> int:
    return read_fetched(client.ask(fetch({("t", partition): 0})))["t", partition].high_watermark


def _error(client: RawClient, records: bytes, partition: int = 0) -> int:
    return read_produced(client.ask(produce({("t", partition): records})))["t", partition].error


def _with_crc(records: bytes) -> bytes:
    return records[:CRC] + struct.pack(">I", crc32c(records[ATTRIBUTES:])) + records[ATTRIBUTES:]


def test_every_flipped_bit_is_noticed(served: Served) -> None:
    """Of a whole batch, header and records, one bit at a time, pipelined."""
    whole = batch(2, 10)
    flipped = []
    for bit in range(8 * len(whole)):
        if bit // 8 not in OUTSIDE_CRC:
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            flipped.append(bytes(damaged))
    with served.connect() as client:
        before = _end(client, 2)
        client.send(b"".join(produce({("t", 2): each}) for each in flipped))
        errors = [read_produced(client.reply()[1])["t", 2].error for _ in flipped]
        assert set(errors) <= {CORRUPT, INVALID_RECORD, UNSUPPORTED_COMPRESSION}
        assert _end(client, 2) == before
    served.leaves_nothing_behind()


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda whole: whole[:CRC] + b"\0\0\0\0" + whole[ATTRIBUTES:], CORRUPT),
        (lambda whole: whole[:-1], INVALID_RECORD),
        (lambda whole: whole + b"\0", CORRUPT),
        (lambda whole: whole + whole, INVALID_RECORD),
        (lambda whole: whole[:10], INVALID_RECORD),
        (lambda whole: whole[:MAGIC] + b"\1" + whole[CRC:], INVALID_RECORD),
        (lambda whole: whole[:LENGTH] + struct.pack(">i", 2**31 - 1) + whole[LEADER_EPOCH:], INVALID_RECORD),
        (lambda whole: _with_crc(whole[:COUNT] + struct.pack(">i", 2) + whole[RECORDS:]), INVALID_RECORD),
        (lambda whole: _with_crc(whole[:COUNT] + struct.pack(">i", 0) + whole[RECORDS:]), INVALID_RECORD),
        (lambda whole: _with_crc(whole[:COUNT] + struct.pack(">i", -1) + whole[RECORDS:]), INVALID_RECORD),
        (lambda whole: _with_crc(whole[:LAST_DELTA] + struct.pack(">i", 3) + whole[LAST_DELTA + 4 :]), INVALID_RECORD),
        (
            lambda whole: _with_crc(
                whole[:LAST_DELTA] + struct.pack(">i", 8) + whole[LAST_DELTA + 4 : COUNT] + struct.pack(">i", 9)
                + whole[RECORDS:]
            ),
            INVALID_RECORD,
        ),
        (lambda whole: _with_crc(whole[:ATTRIBUTES] + b"\0\x07" + whole[LAST_DELTA:]), UNSUPPORTED_COMPRESSION),
        (lambda whole: _with_crc(whole[:ATTRIBUTES] + b"\0\x20" + whole[LAST_DELTA:]), INVALID_RECORD),
        (lambda whole: _with_crc(whole[:ATTRIBUTES] + b"\0\x08" + whole[LAST_DELTA:]), INVALID_TIMESTAMP),
        (lambda whole: b"", INVALID_RECORD),
    ],
)  # fmt: skip
def test_batch_that_is_not_what_it_says_is_refused(served: Served, damage: object, error: int) -> None:
    with served.connect() as client:
        before = _end(client)
        assert _error(client, damage(batch(3))) == error  # type: ignore[operator]
        assert _end(client) == before
        assert _error(client, batch(), 1) == 0


def test_batch_larger_than_allowed_is_refused_and_the_largest_allowed_is_not(served: Served) -> None:
    with served.connect() as client:
        overhead = len(batch(1, 99_000)) - 99_000
        assert _error(client, batch(1, 100_000 - overhead)) == 0
        assert _error(client, batch(1, 100_001 - overhead)) == TOO_LARGE
    served.leaves_nothing_behind()


def test_gap_in_a_producers_sequence_is_refused_and_a_duplicate_answered(served: Served) -> None:
    def numbered(sequence: int) -> bytes:
        return batch(producer_id=4_000, producer_epoch=0, base_sequence=sequence)

    with served.connect() as client:
        first = read_produced(client.ask(produce({("t", 1): numbered(0)})))["t", 1]
        assert first.error == 0
        assert _error(client, numbered(2), 1) == OUT_OF_ORDER
        assert read_produced(client.ask(produce({("t", 1): numbered(0)})))["t", 1] == first


def test_one_bad_partition_of_a_request_costs_the_others_nothing(served: Served) -> None:
    good, bad = batch(), batch()[:-2]
    with served.connect() as client:
        found = read_produced(client.ask(produce({("t", 0): good, ("gone", 1): good, ("t", 1): bad})))
    # A topic that comes twice is answered twice.
    assert (found["t", 0].error, found["gone", 1].error, found["t", 1].error) == (0, UNKNOWN_TOPIC, INVALID_RECORD)


def test_fetch_in_the_middle_of_a_batch_gets_the_whole_batch(served: Served) -> None:
    with served.connect() as client:
        records = batch(10)
        base = read_produced(client.ask(produce({("t", 0): records})))["t", 0].base_offset
        found = read_fetched(client.ask(fetch({("t", 0): base + 5})))["t", 0]
        assert struct.unpack_from(">q", found.records)[0] == base
        assert len(found.records) == len(records)


@pytest.mark.parametrize("distance", [-(10**9), 1, 10**9])
def test_fetch_outside_the_log_is_out_of_range_at_once(served: Served, distance: int) -> None:
    with served.connect(patience_s=60) as client:
        offset = _end(client) + distance
        found = read_fetched(client.ask(fetch({("t", 0): offset}, max_wait_ms=300_000)))["t", 0]
    assert (found.error, found.records) == (OFFSET_OUT_OF_RANGE, b"")


def test_fetch_of_what_there_is_not_is_answered_at_once(served: Served) -> None:
    with served.connect(patience_s=60) as client:
        found = read_fetched(client.ask(fetch({("gone", 0): 0, ("t", 99): 0, ("t", -1): 0}, max_wait_ms=300_000)))
    assert {row.error for row in found.values()} == {UNKNOWN_TOPIC}


def test_unknown_topic_ids_are_named_as_such(served: Served) -> None:
    unknown = b"\x07" * 16
    header = struct.pack(">hhih", 1, 13, 9, -1) + b"\0"
    fetch_13 = struct.pack(">iiiibii", -1, 300_000, 1, 1 << 20, 0, 0, -1) + b"\x02" + unknown + b"\x02"
    fetch_13 += struct.pack(">iiqiqi", 0, -1, 0, -1, -1, 1 << 20) + b"\0\0" + b"\x01" + b"\x01" + b"\0"
    with served.connect(patience_s=60) as client:
        client.send(struct.pack(">i", len(header + fetch_13)) + header + fetch_13)
        _, body = client.reply()
    # Tagged fields of the header, throttle time, error, session, one topic, its id, one partition, its index.
    at = 1 + 4 + 2 + 4 + 1 + 16 + 1 + 4
    assert struct.unpack_from(">h", body, at)[0] == UNKNOWN_TOPIC_ID
