"""The "consumer" embedded protocol: the subscriptions and assignments of consumers in the classic protocol.

The coordinator reads and writes these bytes only where a group changes from one protocol to the other (KIP-848);
otherwise they concern the members alone. Versions 0 to 3 of Apache Kafka's ConsumerProtocol.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError

MOST_ELEMENTS = 100_000
"""The most elements that all arrays of a subscription or assignment may have together. A request counts their bytes as
one element, and 16 MB of them would take seconds."""

_LISTS = 8
"""The topic lists that are remembered: each is compared with what a member names."""
_I16, _I32 = Struct(">h"), Struct(">i")

Named = Mapping[str, frozenset[int]]
"""Partitions by topic name."""


class MalformedProtocol(Exception):
    """The bytes are not those of a consumer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    version: int
    topics: tuple[str, ...]
    owned: Named = field(default_factory=dict)
    rack_id: str | None = None


class TopicLists:
    """The topics of subscriptions that were read: most members of a group name the same, and share them then."""

    def __init__(self) -> None:
        self._read: deque[tuple[bytes, tuple[str, ...]]] = deque(maxlen=_LISTS)
        """As bytes and as names, sorted."""

    def read(self, reader: "_Reader") -> tuple[str, ...]:
        for written, topics in self._read:
            if reader.skip(written):
                return topics
        start = reader.at
        topics = tuple(sorted({reader.text() for _ in range(reader.count())}))
        self._read.appendleft((reader.since(start), topics))
        return topics


def read_version(data: bytes) -> int:
    """The version of a subscription. Raises MalformedProtocol."""
    try:
        return _Reader(data).i16()
    except StructError as error:
        raise MalformedProtocol(str(error)) from error


def read_subscription(data: bytes, lists: TopicLists | None = None) -> Subscription:
    """`lists` has the topics of other members. Raises MalformedProtocol."""
    try:
        reader = _Reader(data)
        version = reader.i16()
        topics = (lists or TopicLists()).read(reader)
        reader.nullable_bytes()
        owned = reader.partitions() if version >= 1 else {}
        if version >= 2:
            reader.i32()  # the generation in which it owned them
        rack_id = reader.nullable_text() if version >= 3 else None
    except (StructError, ValueError) as error:
        raise MalformedProtocol(str(error)) from error
    return Subscription(version=version, topics=topics, owned=owned, rack_id=rack_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedAssignment:
    """`user_data` is what a client-side assignor told its members besides."""

    partitions: Named = field(default_factory=dict)
    user_data: bytes = b""


def read_assignment(data: bytes) -> EmbeddedAssignment:
    """Empty bytes are an empty assignment. Raises MalformedProtocol."""
    if not data:
        return EmbeddedAssignment()
    try:
        reader = _Reader(data)
        reader.i16()
        return EmbeddedAssignment(partitions=reader.partitions(), user_data=reader.nullable_bytes())
    except (StructError, ValueError) as error:
        raise MalformedProtocol(str(error)) from error


def write_assignment(assignment: Named, version: int) -> bytes:
    parts = [_I16.pack(version), _I32.pack(len(assignment))]
    for topic, indexes in sorted(assignment.items()):
        name = topic.encode()
        parts += (_I16.pack(len(name)), name, _I32.pack(len(indexes)))
        parts += (_I32.pack(index) for index in sorted(indexes))
    parts.append(_I32.pack(-1))
    return b"".join(parts)


class _Reader:
    """Reads the bytes in order; raises ValueError or struct.error where they end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._elements_left = MOST_ELEMENTS

    def skip(self, written: bytes) -> bool:
        """Whether these bytes come next; then they are passed over. An array of them had few enough elements."""
        if not self._data.startswith(written, self.at):
            return False
        self.at += len(written)
        return True

    def since(self, start: int) -> bytes:
        return self._data[start : self.at]

    def i16(self) -> int:
        (value,) = _I16.unpack_from(self._data, self.at)
        self.at += 2
        return int(value)

    def i32(self) -> int:
        (value,) = _I32.unpack_from(self._data, self.at)
        self.at += 4
        return int(value)

    def count(self) -> int:
        """The number of elements of an array."""
        count = self.i32()
        self._elements_left -= max(count, 0)
        if self._elements_left < 0:
            raise ValueError(f"the arrays have more than {MOST_ELEMENTS} elements")
        return count

    def _take(self, length: int) -> bytes:
        if length < 0 or self.at + length > len(self._data):
            raise ValueError(f"a field of {length} bytes does not fit")
        taken = self._data[self.at : self.at + length]
        self.at += length
        return taken

    def text(self) -> str:
        return self._take(self.i16()).decode()

    def nullable_text(self) -> str | None:
        length = self.i16()
        return None if length == -1 else self._take(length).decode()

    def nullable_bytes(self) -> bytes:
        """None is written like the empty text."""
        length = self.i32()
        return b"" if length == -1 else self._take(length)

    def partitions(self) -> Named:
        found: dict[str, frozenset[int]] = {}
        for _ in range(self.count()):
            topic = self.text()
            found[topic] = frozenset(self.i32() for _ in range(self.count()))
        return found
