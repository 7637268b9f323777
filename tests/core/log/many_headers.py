"""Batches of one record with as many headers as somebody wants, and what reading them costs."""

import tracemalloc
from collections.abc import Callable

from kafkad.core.log.records.batch import Codec, read_header
from kafkad.core.log.records.compression import compress
from kafkad.core.log.records.record import NewRecord, build_batch, seal_batch
from kafkad.core.log.records.varint import append_varint

HEADER = b"\x02a\x00"
"""The header "a" with an empty value."""
BROKEN_HEADER = b"\x01\x00\x00"
"""A header without a key."""


def batch_with_headers(count: int, header: bytes = HEADER, *, timestamp: int = 0, codec: Codec = Codec.NONE) -> bytes:
    inner = bytearray(b"\0\0\0\x02k\x02v")
    append_varint(inner, count)
    inner += header * count
    body = bytearray()
    append_varint(body, len(inner))
    body += inner
    front = read_header(build_batch([NewRecord(timestamp, b"k", b"v")], codec=codec))
    return seal_batch(front, compress(codec, bytes(body)))


def peak_bytes(act: Callable[[], object]) -> int:
    """How much memory `act` takes at most."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
