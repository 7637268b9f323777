"""Decode some fields of replies: error codes, offsets, sizes; no records."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass


class ErrorReply(Exception):
    """A reply has an error code: the figures would be invalid."""


class Reader:
    """A cursor over a response body, after its length and header."""

    def __init__(self, frame: bytes | memoryview, at: int = 5) -> None:
        self._frame = frame
        self._at = at

    def number(self, code: str) -> int:
        """One big-endian integer with this struct code."""
        layout = f">{code}"
        value: int = struct.unpack_from(layout, self._frame, self._at)[0]
        self._at += struct.calcsize(layout)
        return value

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self._frame[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip(self, count: int) -> None:
        self._at += count

    def uuid(self) -> bytes:
        start, self._at = self._at, self._at + 16
        return bytes(self._frame[start : self._at])

    def items(self) -> range:
        """A range over the elements of a compact array."""
        return range(self.uvarint() - 1)

    def text(self) -> str | None:
        length = self.uvarint() - 1
        if length < 0:
            return None
        start, self._at = self._at, self._at + length
        return bytes(self._frame[start : self._at]).decode()

    def tags(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self.skip(self.uvarint())


def _checked(error: int, what: str) -> None:
    if error:
        raise ErrorReply(f"{what}: error code {error}")


def check_produce(frame: bytes | memoryview) -> list[int]:
    """The base offsets of a Produce v9 reply. Raises `ErrorReply` if a partition has an error."""
    reader, offsets = Reader(frame), []
    for _ in reader.items():
        topic = reader.text()
        for _ in reader.items():
            partition = reader.number("i")
            _checked(reader.number("h"), f"Produce to {topic}-{partition}")
            offsets.append(reader.number("q"))
            reader.skip(16)
            assert reader.uvarint() <= 1, "record errors in a reply without error code"
            reader.text()
            reader.tags()
        reader.tags()
    return offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The only partition of a Fetch v12 reply, with the position of its records in the frame."""

    high_watermark: int
    start: int
    size: int


def check_fetch(frame: bytes | memoryview) -> Fetched:
    """The fetched partition. Raises `ErrorReply` if the reply or the partition has an error."""
    reader = Reader(frame)
    reader.skip(4)
    _checked(reader.number("h"), "Fetch")
    reader.skip(4)
    assert len(reader.items()) == 1
    topic = reader.text()
    assert len(reader.items()) == 1
    partition = reader.number("i")
    _checked(reader.number("h"), f"Fetch from {topic}-{partition}")
    high_watermark = reader.number("q")
    reader.skip(16)
    assert len(reader.items()) <= 0, "aborted transactions in a log without any"
    reader.skip(4)
    size = max(reader.uvarint() - 1, 0)
    return Fetched(high_watermark=high_watermark, start=reader._at, size=size)


def batch_ends(frame: bytes | memoryview, fetched: Fetched) -> Iterator[int]:
    """The last offset of each complete batch in the fetched records."""
    at, end = fetched.start, fetched.start + fetched.size
    while at + 61 <= end:
        base, length = struct.unpack_from(">qi", frame, at)
        if at + 12 + length > end:
            return
        yield base + struct.unpack_from(">i", frame, at + 23)[0]
        at += 12 + length


def check_create_topics(frame: bytes | memoryview) -> None:
    """Raises `ErrorReply` unless every topic was created."""
    reader = Reader(frame)
    reader.skip(4)
    for _ in reader.items():
        name = reader.text()
        reader.skip(16)
        error = reader.number("h")
        _checked(error, f"CreateTopics of {name}: {reader.text()}")
        reader.skip(6)
        for _ in reader.items():
            reader.text(), reader.text()
            reader.skip(3)
            reader.tags()
        reader.tags()


def leaders(frame: bytes | memoryview) -> dict[str, int]:
    """For each topic of a Metadata v12 reply, the number of partitions with a leader and without error."""
    reader, served = Reader(frame), {}
    reader.skip(4)
    for _ in reader.items():
        reader.skip(4)
        reader.text()
        reader.skip(4)
        reader.text()
        reader.tags()
    reader.text()
    reader.skip(4)
    for _ in reader.items():
        error, name = reader.number("h"), reader.text()
        reader.skip(17)
        with_leader = sum(_has_leader(reader) for _ in reader.items())
        served[str(name)] = 0 if error else with_leader
        reader.skip(4)
        reader.tags()
    return served


def _has_leader(reader: Reader) -> bool:
    error = reader.number("h")
    reader.skip(4)
    leader = reader.number("i")
    reader.skip(4)
    for _ in range(3):
        reader.skip(4 * len(reader.items()))
    reader.tags()
    return error == 0 and leader >= 0


def offsets_without_error(frame: bytes | memoryview) -> int:
    """The number of partitions without error in a ListOffsets v7 reply."""
    reader, fine = Reader(frame), 0
    reader.skip(4)
    for _ in reader.items():
        reader.text()
        for _ in reader.items():
            reader.skip(4)
            fine += reader.number("h") == 0
            reader.skip(20)
            reader.tags()
        reader.tags()
    return fine
