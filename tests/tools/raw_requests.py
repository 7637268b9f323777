"""Requests and replies as bytes, packed by hand: what no client library would send, and in no order but the test's.

Old versions on purpose: they are the shortest, and a bug in the broker's own codec can't hide in a shared one.
"""

import select
import socket
import time
from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Any, NamedTuple

from kafkad.core.log.records.record import NewRecord, build_batch

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS = 0, 1, 2, 3, 18, 19
HEARTBEAT, DELETE_TOPICS, DELETE_RECORDS = 12, 20, 21
_HEADER = Struct(">ihhih")
_I16, _I32, _I64 = Struct(">h"), Struct(">i"), Struct(">q")
_PRODUCED = Struct(">ihqqq")
_FETCHED = Struct(">ihqqii")
CLIENT = b"raw"


class Produced(NamedTuple):
    """What a reply to Produce 7 says of one partition."""

    error: int
    base_offset: int


class Fetched(NamedTuple):
    """What a reply to Fetch 4 says of one partition."""

    error: int
    high_watermark: int
    records: bytes


def framed(key: int, version: int, body: bytes, correlation: int = 1) -> bytes:
    """A whole request with a header of version 1."""
    size = _HEADER.size - 4 + len(CLIENT) + len(body)
    return _HEADER.pack(size, key, version, correlation, len(CLIENT)) + CLIENT + body


def batch(count: int = 1, size: int = 20, **fields: Any) -> bytes:
    """A record batch that any broker takes."""
    now_ms = time.time_ns() // 1_000_000
    return bytes(build_batch([NewRecord(now_ms, None, bytes(size)) for _ in range(count)], **fields))


def produce(
    rows: Mapping[tuple[str, int], bytes],
    *,
    acks: int = 1,
    timeout_ms: int = 30_000,
    correlation: int = 1,
    version: int = 7,
) -> bytes:
    """Produce 7, or 8 whose answer has messages; `rows` by topic and partition."""
    parts = [b"\xff\xff", _I16.pack(acks), _I32.pack(timeout_ms), _I32.pack(len(rows))]
    for (topic, partition), records in rows.items():
        parts += (text(topic), _I32.pack(1), _I32.pack(partition), _I32.pack(len(records)), records)
    return framed(PRODUCE, version, b"".join(parts), correlation)


def fetch(
    offsets: Mapping[tuple[str, int], int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    correlation: int = 1,
) -> bytes:
    """Fetch 4; `offsets` by topic and partition."""
    parts = [_I32.pack(-1), _I32.pack(max_wait_ms), _I32.pack(min_bytes), _I32.pack(max_bytes), b"\x00"]
    parts.append(_I32.pack(len(offsets)))
    for (topic, partition), offset in offsets.items():
        parts += (text(topic), _I32.pack(1), _I32.pack(partition), _I64.pack(offset), _I32.pack(max_bytes))
    return framed(FETCH, 4, b"".join(parts), correlation)


def list_offsets(topic: str, partition: int, timestamp: int, *, correlation: int = 1) -> bytes:
    """ListOffsets 1 of one partition."""
    body = _I32.pack(-1) + _I32.pack(1) + text(topic) + _I32.pack(1) + _I32.pack(partition) + _I64.pack(timestamp)
    return framed(LIST_OFFSETS, 1, body, correlation)


def metadata(topics: Iterable[str], *, correlation: int = 1) -> bytes:
    """Metadata 1, which creates no topic unless the broker does so by itself."""
    names = [text(name) for name in topics]
    return framed(METADATA, 1, _I32.pack(len(names)) + b"".join(names), correlation)


def api_versions(version: int = 0, *, correlation: int = 1) -> bytes:
    return framed(API_VERSIONS, version, b"", correlation)


def delete_records(topic: str, partition: int, offset: int, *, timeout_ms: int = 30_000, correlation: int = 1) -> bytes:
    """DeleteRecords 0 of one partition; offset -1 is the high watermark."""
    row = _I32.pack(1) + _I32.pack(partition) + _I64.pack(offset)
    return framed(DELETE_RECORDS, 0, _I32.pack(1) + text(topic) + row + _I32.pack(timeout_ms), correlation)


def create_topic(name: str, partitions: int = 1, *, correlation: int = 1) -> bytes:
    """CreateTopics 2 of one topic with one replica."""
    body = _I32.pack(1) + text(name) + _I32.pack(partitions) + _I16.pack(1) + _I32.pack(0) + _I32.pack(0)
    return framed(CREATE_TOPICS, 2, body + _I32.pack(30_000) + b"\x00", correlation)


def heartbeat(group: str, member: str = "nobody", *, correlation: int = 1) -> bytes:
    """Heartbeat 0 in generation 1."""
    return framed(HEARTBEAT, 0, text(group) + _I32.pack(1) + text(member), correlation)


def delete_topic(name: str, *, timeout_ms: int = 30_000, correlation: int = 1) -> bytes:
    """DeleteTopics 1 of one topic."""
    return framed(DELETE_TOPICS, 1, _I32.pack(1) + text(name) + _I32.pack(timeout_ms), correlation)


def text(of: str) -> bytes:
    return _I16.pack(len(of.encode())) + of.encode()


def read_produced(body: bytes) -> dict[tuple[str, int], Produced]:
    """The body of a reply to `produce`."""
    found = {}
    for topic, at in _topics(body, 0):
        partition, error, base_offset, _, _ = _PRODUCED.unpack_from(body, at)
        found[topic, partition] = Produced(error, base_offset)
    return found


def _topics(body: bytes, at: int) -> Iterable[tuple[str, int]]:
    """(topic, where its one partition begins); each reply to `produce` has one partition a topic."""
    (count,) = _I32.unpack_from(body, at)
    at += 4
    for _ in range(count):
        (length,) = _I16.unpack_from(body, at)
        topic = body[at + 2 : at + 2 + length].decode()
        at += 2 + length + 4
        yield topic, at
        at += _PRODUCED.size


def read_fetched(body: bytes) -> dict[tuple[str, int], Fetched]:
    """The body of a reply to `fetch`."""
    found = {}
    (count,) = _I32.unpack_from(body, 4)
    at = 8
    for _ in range(count):
        (length,) = _I16.unpack_from(body, at)
        topic = body[at + 2 : at + 2 + length].decode()
        (partitions,) = _I32.unpack_from(body, at + 2 + length)
        at += 6 + length
        for _ in range(partitions):
            partition, error, high_watermark, _, _, size = _FETCHED.unpack_from(body, at)
            at += _FETCHED.size
            found[topic, partition] = Fetched(error, high_watermark, body[at : at + max(0, size)])
            at += max(0, size)
    return found


class Received:
    """Cuts what came in on a connection into replies."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        self._bytes += data

    def take(self) -> tuple[int, bytes] | None:
        """(correlation id, body) of the next whole reply."""
        if len(self._bytes) < 4:
            return None
        (length,) = _I32.unpack_from(self._bytes)
        if len(self._bytes) < 4 + length:
            return None
        frame = bytes(self._bytes[4 : 4 + length])
        del self._bytes[: 4 + length]
        return _I32.unpack_from(frame)[0], frame[4:]


class RawClient:
    """A blocking connection to a broker in other processes; `source` is any address of the loopback."""

    def __init__(self, port: int, *, patience_s: float = 60.0, source: str = "127.0.0.1") -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), patience_s, (source, 0))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.name = "{}:{}".format(*self.sock.getsockname()[:2])
        self._received = Received()

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def reply(self) -> tuple[int, bytes]:
        """The next reply; raises ConnectionError when the broker closes instead, TimeoutError when it is silent."""
        while (found := self._received.take()) is None:
            data = self.sock.recv(1 << 20)
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            self._received.add(data)
        return found

    def has_input(self) -> bool:
        """Whether something has come that was not read yet."""
        return bool(select.select([self.sock], [], [], 0)[0])

    def ask(self, request: bytes) -> bytes:
        self.send(request)
        return self.reply()[1]

    def is_closed_by_peer(self) -> bool:
        """Waits for the end of the connection; False when a reply comes instead."""
        try:
            self.reply()
        except ConnectionError:
            return True
        return False
