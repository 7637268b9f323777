"""Requests and replies of the clients, packed by hand: what `tests.tools.raw_requests` has, and what only they need."""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import NamedTuple

from tests.tools.raw_requests import FETCH, LIST_OFFSETS, framed

CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, INIT_PRODUCER_ID = 19, 20, 21, 22
EARLIEST, LATEST = -2, -1
_I16, _I32, _I64 = Struct(">h"), Struct(">i"), Struct(">q")
_FETCHED, _ABORTED = Struct(">ihqqqi"), Struct(">qq")

Partition = tuple[str, int]
"""Topic and number."""


class Fetched(NamedTuple):
    """What a reply to Fetch 7 says of one partition."""

    error: int
    high_watermark: int
    log_start: int
    records: bytes
    last_stable: int = -1
    aborted: tuple[tuple[int, int], ...] = ()
    """Producer id and first offset of each aborted transaction that the records belong to."""


class FetchReply(NamedTuple):
    """All of it; `session` is 0 when there is none."""

    error: int
    session: int
    partitions: dict[Partition, Fetched]


def _text(text: str) -> bytes:
    return _I16.pack(len(text)) + text.encode()


def _array(items: Iterable[bytes]) -> bytes:
    rows = list(items)
    return _I32.pack(len(rows)) + b"".join(rows)


def fetch(
    offsets: Mapping[Partition, int],
    correlation: int,
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    session: int = 0,
    epoch: int = -1,
    forgotten: Iterable[Partition] = (),
    committed: bool = False,
) -> bytes:
    """Fetch 7."""
    head = _I32.pack(-1) + _I32.pack(max_wait_ms) + _I32.pack(min_bytes) + _I32.pack(1 << 20)
    head += bytes((committed,))
    rows = (
        _text(topic) + _array([_I32.pack(number) + _I64.pack(offset) + _I64.pack(-1) + _I32.pack(max_bytes)])
        for (topic, number), offset in offsets.items()
    )
    gone = (_text(topic) + _array([_I32.pack(number)]) for topic, number in forgotten)
    body = head + _I32.pack(session) + _I32.pack(epoch) + _array(rows) + _array(gone)
    return framed(FETCH, 7, body, correlation)


def read_fetched(body: bytes) -> FetchReply:
    _, error, session, topics = Struct(">ihii").unpack_from(body)
    at = 14
    found = {}
    for _ in range(topics):
        topic, at = _read_text(body, at)
        (partitions,) = _I32.unpack_from(body, at)
        at += 4
        for _ in range(partitions):
            number, code, high_watermark, stable, log_start, count = _FETCHED.unpack_from(body, at)
            at += _FETCHED.size
            end = at + max(0, count) * _ABORTED.size
            aborted = tuple((pid, first) for pid, first in _ABORTED.iter_unpack(body[at:end]))
            (size,) = _I32.unpack_from(body, end)
            at = end + 4 + max(0, size)
            found[topic, number] = Fetched(code, high_watermark, log_start, body[end + 4 : at], stable, aborted)
    return FetchReply(error, session, found)


def _read_text(body: bytes, at: int) -> tuple[str, int]:
    (length,) = _I16.unpack_from(body, at)
    if length < 0:
        return "", at + 2
    return body[at + 2 : at + 2 + length].decode(), at + 2 + length


def create_topic(
    name: str, partitions: int, configs: Mapping[str, str], correlation: int, replication_factor: int = 1
) -> bytes:
    """CreateTopics 2."""
    pairs = _array(_text(key) + _text(value) for key, value in configs.items())
    row = _text(name) + _I32.pack(partitions) + _I16.pack(replication_factor) + _I32.pack(0) + pairs
    return framed(CREATE_TOPICS, 2, _array([row]) + _I32.pack(10_000) + b"\x00", correlation)


def read_created(body: bytes) -> int:
    """The error of the only topic."""
    _, at = _read_text(body, 8)
    return int(_I16.unpack_from(body, at)[0])


def delete_topic(name: str, correlation: int) -> bytes:
    """DeleteTopics 1."""
    return framed(DELETE_TOPICS, 1, _array([_text(name)]) + _I32.pack(10_000), correlation)


read_deleted = read_created


def delete_records(partition: Partition, offset: int, correlation: int) -> bytes:
    """DeleteRecords 0."""
    row = _text(partition[0]) + _array([_I32.pack(partition[1]) + _I64.pack(offset)])
    return framed(DELETE_RECORDS, 0, _array([row]) + _I32.pack(10_000), correlation)


def read_records_deleted(body: bytes) -> tuple[int, int]:
    """(error, low watermark) of the only partition."""
    _, at = _read_text(body, 8)
    low_watermark, error = Struct(">qh").unpack_from(body, at + 8)
    return error, low_watermark


def init_producer_id(correlation: int) -> bytes:
    """InitProducerId 0, without a transactional id."""
    return framed(INIT_PRODUCER_ID, 0, _I16.pack(-1) + _I32.pack(60_000), correlation)


def read_producer_id(body: bytes) -> tuple[int, int]:
    """(error, producer id)."""
    error, producer_id = Struct(">hq").unpack_from(body, 4)
    return error, producer_id


def list_offsets(partition: Partition, timestamp: int, correlation: int) -> bytes:
    """ListOffsets 1."""
    row = _text(partition[0]) + _array([_I32.pack(partition[1]) + _I64.pack(timestamp)])
    return framed(LIST_OFFSETS, 1, _I32.pack(-1) + _array([row]), correlation)


def read_listed(body: bytes) -> tuple[int, int]:
    """(error, offset) of the only partition."""
    _, at = _read_text(body, 4)
    error, _, offset = Struct(">hqq").unpack_from(body, at + 8)
    return error, offset
