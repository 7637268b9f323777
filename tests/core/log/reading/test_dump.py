"""Damage in every kind of file of a partition directory, indexes included: what kafkad dump-log says about it."""

import struct

import pytest

from kafkad.core.log.producers.producer_state import EndMarker
from kafkad.core.log.reading.dump import (
    Line,
    Problem,
    Source,
    dump_epochs,
    dump_log,
    dump_offset_index,
    dump_snapshot,
    dump_time_index,
    dump_txn_index,
)
from kafkad.core.log.records.batch import Codec
from kafkad.core.log.records.end_markers import build_end_marker
from kafkad.core.log.records.record import NewRecord, build_batch
from tests.core.log import golden
from tests.core.log.sealed import sealed


def source(content: bytes, name: str = "00000000000000000000.log") -> Source:
    return Source(name=name, size=len(content), read_at=lambda size, at: content[at : at + size])


def batch(base_offset: int, count: int = 2, codec: Codec = Codec.NONE) -> bytes:
    records = [NewRecord(1000 + number, b"k%d" % number, b"v") for number in range(count)]
    return build_batch(records, base_offset=base_offset, codec=codec)


def lines(found: list[Line | Problem], kind: str) -> list[dict[str, object]]:
    return [item.fields for item in found if isinstance(item, Line) and item.kind == kind]


def problems(found: list[Line | Problem]) -> list[str]:
    return [item.message for item in found if isinstance(item, Problem)]


def test_a_batch_shows_what_is_in_its_header() -> None:
    found = list(dump_log(source(golden.BATCHES[Codec.LZ4]), 0))
    assert found == [
        Line(
            kind="batch",
            fields={
                "baseOffset": 5,
                "lastOffset": 7,
                "count": 3,
                "baseSequence": 41,
                "lastSequence": 43,
                "producerId": 77,
                "producerEpoch": 3,
                "partitionLeaderEpoch": 9,
                "isTransactional": False,
                "isControl": False,
                "deleteHorizonMs": None,
                "position": 0,
                "CreateTime": 1234567,
                "size": len(golden.BATCHES[Codec.LZ4]),
                "magic": 2,
                "compresscodec": "lz4",
                "crc": 0xD5409882,
                "isvalid": True,
            },
        )
    ]


def test_records_are_shown_on_request_and_their_data_only_then() -> None:
    log = source(golden.BATCHES[Codec.ZSTD])
    assert lines(list(dump_log(log, 0)), "record") == []
    assert lines(list(dump_log(log, 0, deep=True)), "record")[0] == {
        "offset": 5,
        "CreateTime": 1000,
        "keySize": 2,
        "valueSize": 9,
        "sequence": 41,
        "headerKeys": ["h", "n"],
    }
    shown = lines(list(dump_log(log, 0, with_data=True)), "record")
    assert [(record.get("key"), record.get("payload")) for record in shown] == [
        (b"k1", b"value-one"),
        (None, b"value-two"),
        (b"k3", None),
    ]
    assert [(record["keySize"], record["valueSize"]) for record in shown] == [(2, 9), (-1, 9), (2, -1)]


def test_a_marker_shows_how_the_transaction_ended() -> None:
    marker = EndMarker(commit=False, coordinator_epoch=6, timestamp=5)
    log = source(build_end_marker(marker, producer_id=7, producer_epoch=0))
    record = lines(list(dump_log(log, 0, with_data=True)), "record")[0]
    assert (record["endTxnMarker"], record["coordinatorEpoch"]) == ("ABORT", 6)
    assert "payload" not in record


def test_a_sound_log_has_no_problems() -> None:
    content = batch(10) + batch(12, codec=Codec.GZIP) + batch(20)
    found = list(dump_log(source(content), 10, deep=True))
    assert problems(found) == []
    assert [shown["position"] for shown in lines(found, "batch")] == [
        0,
        len(batch(10)),
        len(content) - len(batch(20)),
    ]
    assert lines(found, "gap") == [{"offset": 13, "next": 20}]


def test_a_damaged_batch_is_named_and_the_next_one_shown() -> None:
    content = bytearray(batch(0) + batch(2))
    content[70] ^= 1
    found = list(dump_log(source(bytes(content)), 0))
    assert [shown["isvalid"] for shown in lines(found, "batch")] == [False, True]
    assert problems(found) == ["the batch at byte 0 does not match its checksum"]


@pytest.mark.parametrize("tail", [b"\0" * 30, b"\0" * 300, batch(2)[:-1]])
def test_bytes_that_are_no_batch_are_counted(tail: bytes) -> None:
    found = list(dump_log(source(batch(0) + tail), 0))
    assert len(lines(found, "batch")) == 1
    assert len(problems(found)) == 1
    assert f"Found {len(tail)} invalid bytes at the end of 00000000000000000000.log" in problems(found)[0]


def test_offsets_that_go_back_or_precede_the_segment_are_named() -> None:
    assert "expected 5 or later" in problems(list(dump_log(source(batch(4)), 5)))[0]
    assert "expected 2 or later" in problems(list(dump_log(source(batch(0) + batch(1)), 0)))[0]


def test_a_wrong_record_count_is_found_by_deep_iteration() -> None:
    log = source(sealed(batch(0, 40, Codec.ZSTD), records_count=39, last_offset_delta=38))
    assert problems(list(dump_log(log, 0))) == []
    assert "can't be read" in problems(list(dump_log(log, 0, deep=True)))[0]


def test_a_record_beyond_its_batch_is_found_by_deep_iteration() -> None:
    log = source(sealed(batch(0, 3), last_offset_delta=1))
    assert problems(list(dump_log(log, 0, deep=True))) == [
        "the batch at byte 0 ends at offset 1, but has a record at offset 2"
    ]


def test_an_unassigned_codec_is_shown_by_its_number() -> None:
    found = list(dump_log(source(sealed(batch(0), attributes=6)), 0))
    assert lines(found, "batch")[0]["compresscodec"] == "unknown(6)"


def test_aborted_transactions_are_shown() -> None:
    content = struct.pack(">hqqqq", 0, 7, 10, 20, 21)
    names = ["version", "producerId", "firstOffset", "lastOffset", "lastStableOffset"]
    assert list(dump_txn_index(source(content))) == [
        Line(kind="txnindex", fields=dict(zip(names, [0, 7, 10, 20, 21], strict=True)))
    ]
    assert problems(list(dump_txn_index(source(content + b"x")))) == ["1 bytes at the end are an incomplete entry"]
    assert problems(list(dump_txn_index(source(b"\0\5" + content[2:])))) == ["expected entries of version 0, found 5"]


def test_a_snapshot_shows_its_producers() -> None:
    found = list(dump_snapshot(source(golden.SNAPSHOT)))
    assert [line["producerId"] for line in lines(found, "producer")] == [78, 77]
    assert lines(found, "producer")[0]["currentTxnFirstOffset"] == 31
    assert (lines(found, "producer")[1]["firstSequence"], lines(found, "producer")[1]["lastSequence"]) == (41, 43)
    assert len(problems(list(dump_snapshot(source(golden.SNAPSHOT[:-1]))))) == 1


def test_epochs_that_do_not_grow_are_named() -> None:
    assert problems(list(dump_epochs(source(b"0\n2\n1 0\n2 5\n")))) == []
    assert problems(list(dump_epochs(source(b"0\n2\n1 9\n2 5\n")))) == ["epoch 2 from 5 follows epoch 1 from 9"]
    assert len(problems(list(dump_epochs(source(b"\xff\xfe"))))) == 1


BASE = 100
BATCHES = [
    build_batch([NewRecord(1000 * number, b"k", b"v")] * 2, base_offset=BASE + 2 * number) for number in range(4)
]
SIZE = len(BATCHES[0])


LOG = source(b"".join(BATCHES), "x.log")


def offsets(*entries: tuple[int, int], tail: bytes = b"") -> list[Line | Problem]:
    content = b"".join(struct.pack(">ii", *entry) for entry in entries) + tail
    return list(dump_offset_index(source(content, "x.index"), LOG, BASE))


def times(*entries: tuple[int, int], tail: bytes = b"") -> list[Line | Problem]:
    content = b"".join(struct.pack(">qi", *entry) for entry in entries) + tail
    return list(dump_time_index(source(content, "x.timeindex"), LOG, BASE))


def test_entries_that_name_the_last_offset_and_the_start_of_a_batch_are_right() -> None:
    assert offsets((3, SIZE), (7, 3 * SIZE)) == [
        Line(kind="index", fields={"offset": 103, "position": SIZE}),
        Line(kind="index", fields={"offset": 107, "position": 3 * SIZE}),
    ]


def test_preallocated_space_is_no_entry() -> None:
    assert len(offsets((3, SIZE), tail=bytes(80))) == 1
    assert len(times((1000, 3), tail=bytes(120))) == 1


def test_an_entry_with_the_wrong_offset_is_named() -> None:
    assert problems(offsets((2, SIZE))) == ["Index offset: 102, log offset: 103"]


@pytest.mark.parametrize("position", [-1, 7, 4 * SIZE, 2**31 - 1])
def test_an_entry_that_points_to_no_batch_is_named(position: int) -> None:
    found = problems(offsets((3, position)))
    assert len(found) == 1
    assert found[0].startswith("Index offset: 103")


def test_offsets_that_do_not_grow_are_named() -> None:
    assert problems(offsets((3, SIZE), (3, SIZE))) == ["Index offset: 103, previously indexed offset: 103"]


def test_half_an_entry_is_named() -> None:
    assert problems(offsets((3, SIZE), tail=b"abc")) == ["3 bytes at the end of x.index are an incomplete entry"]
    assert problems(times(tail=b"abcde")) == ["5 bytes at the end of x.timeindex are an incomplete entry"]


def test_times_that_name_the_largest_time_of_a_batch_are_right() -> None:
    assert times((0, 1), (2000, 5), (3000, 7)) == [
        Line(kind="timeindex", fields={"timestamp": 0, "offset": 101}),
        Line(kind="timeindex", fields={"timestamp": 2000, "offset": 105}),
        Line(kind="timeindex", fields={"timestamp": 3000, "offset": 107}),
    ]


def test_a_wrong_time_is_named() -> None:
    assert problems(times((1500, 3))) == ["Index timestamp: 1500, log timestamp: 1000"]


def test_times_that_do_not_grow_are_named() -> None:
    assert problems(times((1000, 3), (1000, 3))) == ["Index timestamp: 1000, Previously indexed timestamp: 1000"]


@pytest.mark.parametrize(("relative", "found"), [(2, 103), (40, -1)])
def test_an_offset_that_ends_no_batch_is_named(relative: int, found: int) -> None:
    assert problems(times((1000, relative))) == [f"Indexed offset: {BASE + relative}, found log offset: {found}"]


def test_an_empty_index_is_right() -> None:
    assert offsets() == [Line(kind="empty")] and times() == []


def test_an_index_is_checked_against_what_is_intact_in_the_log() -> None:
    log = source(LOG.content()[: SIZE + 10], "x.log")
    index = struct.pack(">qi", 0, 1) + struct.pack(">qi", 1000, 3)
    found = list(dump_time_index(source(index, "x.timeindex"), log, BASE))
    assert problems(found) == ["Indexed offset: 103, found log offset: -1"]
