"""Arrow batches have the records that the plain reader finds, whatever the batches hold."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.columns.window import BatchWindow, split_window
from kafkad.core.log.records.batch import read_header
from kafkad.core.log.records.record import NewRecord, build_batch, iter_records, record_timestamp
from kafkad_lakehouse.export.reading.decoding import arrow_batches
from kafkad_lakehouse.export.reading.transactions import Aborted, CommittedFilter
from kafkad_lakehouse.export.schema import RECORDS
from tests.core.columns.content import windows

FAR = 1 << 62
_EPOCH = datetime.fromtimestamp(0, UTC)


def exported(data: bytes, start: int = 0, end: int = FAR, aborted: Iterable[Aborted] = ()) -> list[dict[str, Any]]:
    window = split_window(data, 0, len(data))
    visible = CommittedFilter(aborted).visible(window)
    found = list(arrow_batches(window, visible, "t", 3, start, end))
    assert all(batch.schema == RECORDS for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


def plain(data: bytes, start: int, end: int) -> Iterator[dict[str, Any]]:
    at = 0
    while at < len(data):
        header = read_header(data, at)
        for record in iter_records(memoryview(data)[at : at + header.size]):
            offset = header.base_offset + record.offset_delta
            if start <= offset < end:
                yield {
                    "key": record.key,
                    "value": record.value,
                    "topic": "t",
                    "partition": 3,
                    "offset": offset,
                    "timestamp": _EPOCH + timedelta(milliseconds=record_timestamp(header, record)),
                    "timestampType": int(header.is_log_append_time),
                    "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
                }
        at += header.size


@given(windows(), st.integers(0, 400), st.integers(0, 400))
def test_rows_are_those_of_the_plain_reader(data: bytes, start: int, size: int) -> None:
    assert exported(data, start, start + size) == list(plain(data, start, start + size))
    assert exported(data) == list(plain(data, 0, FAR))


def one(timestamp: int, *headers: tuple[str, bytes | None]) -> bytes:
    return build_batch([NewRecord(timestamp, b"k", b"v", headers)])


def test_no_timestamp_is_a_millisecond_before_1970_and_one_beyond_64_bits_is_null() -> None:
    assert exported(one(-1))[0]["timestamp"] == _EPOCH - timedelta(milliseconds=1)
    window = split_window(one(2**62), 0, 1 << 20)
    (batch,) = arrow_batches(window, CommittedFilter().visible(window), "t", 0, 0, FAR)
    assert batch.column("timestamp").null_count == 1


def test_header_keys_that_are_not_utf8_are_read_as_java_reads_them() -> None:
    data = one(5, ("ab", b"x"))
    spoiled = data.replace(b"ab", b"a\xff")
    window = split_window(data, 0, len(data))
    broken = BatchWindow(spoiled, 0, window.at, window.size, window.headers)
    (batch,) = arrow_batches(broken, CommittedFilter().visible(broken), "t", 0, 0, FAR)
    assert batch.column("headers").to_pylist() == [[{"key": "a\ufffd", "value": b"x"}]]


def marker(offset: int, producer_id: int) -> bytes:
    return build_batch(
        [NewRecord(1, b"\0\0\0\0", b"\0\0\0\0\0\0")],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def written(offset: int, producer_id: int) -> bytes:
    return build_batch(
        [NewRecord(1, None, b"%d" % offset)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def test_markers_and_aborted_transactions_are_left_out() -> None:
    data = b"".join(
        (written(0, 7), written(1, 8), marker(2, 7), written(3, 7), marker(4, 8), written(5, 8), marker(6, 7))
    )
    seen = [row["offset"] for row in exported(data, aborted=[Aborted(8, 1), Aborted(7, 3)])]
    assert seen == [0, 5]
    assert [row["offset"] for row in exported(data)] == [0, 1, 3, 5]


def test_a_range_may_begin_in_the_middle_of_an_aborted_transaction() -> None:
    data = b"".join((written(3, 7), marker(4, 7), written(5, 7)))
    assert [row["offset"] for row in exported(data, start=3, aborted=[Aborted(7, 1)])] == [5]


def test_an_aborted_transaction_ends_where_the_index_says_when_compaction_has_removed_its_marker() -> None:
    data = b"".join((written(1, 7), written(5, 7), marker(6, 7)))
    assert [row["offset"] for row in exported(data, aborted=[Aborted(7, 1, last_offset=3)])] == [5]
