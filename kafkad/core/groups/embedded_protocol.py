"""The "consumer" embedded protocol: the subscriptions and assignments of consumers in the classic protocol.

The coordinator reads and writes these bytes only when a group changes its protocol (KIP-848); otherwise only members
use them. Versions 0 to 3 of Apache Kafka's ConsumerProtocol.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError

MAX_ELEMENTS = 100_000
"""The maximum number of elements in all arrays of a subscription or assignment. The request decoder counts these bytes
as one element, and 16 MB of them would take seconds."""

_CACHED_LISTS = 8
"""The number of cached topic lists: each is compared with every subscription."""
_I16, _I32 = Struct(">h"), Struct(">i")

Named = Mapping[str, frozenset[int]]
"""Partitions by topic name."""


class MalformedProtocol(Exception):
    """The bytes are no valid subscription or assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    version: int
    topics: tuple[str, ...]
    owned: Named = field(default_factory=dict)
    rack_id: str | None = None


class TopicLists:
    """A cache of decoded topic lists: most members of a group have the same, and share it."""

    def __init__(self) -> None:
        self._cached: deque[tuple[bytes, tuple[str, ...]]] = deque(maxlen=_CACHED_LISTS)
        """(encoded, names in order)"""

    def read(self, reader: "_Reader") -> tuple[str, ...]:
        for encoded, topics in self._cached:
            if reader.skip(encoded):
                return topics
        start = reader.at
        topics = tuple(sorted({reader.text() for _ in range(reader.count())}))
        self._cached.appendleft((reader.bytes_from(start), topics))
        return topics


def read_version(data: bytes) -> int:
    """The version of a subscription. Raises `MalformedProtocol`."""
    try:
        return _Reader(data).i16()
    except StructError as error:
        raise MalformedProtocol(str(error)) from error


def read_subscription(data: bytes, lists: TopicLists | None = None) -> Subscription:
    """`lists` caches topics across members. Raises `MalformedProtocol`."""
    try:
        reader = _Reader(data)
        version = reader.i16()
        topics = (lists or TopicLists()).read(reader)
        reader.nullable_bytes()
        owned = reader.partitions() if version >= 1 else {}
        if version >= 2:
            reader.i32()  # the generation of the owned partitions
        rack_id = reader.nullable_text() if version >= 3 else None
    except (StructError, ValueError) as error:
        raise MalformedProtocol(str(error)) from error
    return Subscription(version=version, topics=topics, owned=owned, rack_id=rack_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedAssignment:
    """`user_data` are bytes of a client-side assignor for its members."""

    partitions: Named = field(default_factory=dict)
    user_data: bytes = b""


def read_assignment(data: bytes) -> EmbeddedAssignment:
    """Empty bytes are an empty assignment. Raises `MalformedProtocol`."""
    if not data:
        return EmbeddedAssignment()
    try:
        reader = _Reader(data)
        reader.i16()
        return EmbeddedAssignment(partitions=reader.partitions(), user_data=reader.nullable_bytes())
    except (StructError, ValueError) as error:
        raise MalformedProtocol(str(error)) from error


def write_assignment(assignment: Named, version: int) -> bytes:
    chunks = [_I16.pack(version), _I32.pack(len(assignment))]
    for topic, indexes in sorted(assignment.items()):
        name = topic.encode()
        chunks += (_I16.pack(len(name)), name, _I32.pack(len(indexes)))
        chunks += (_I32.pack(index) for index in sorted(indexes))
    chunks.append(_I32.pack(-1))
    return b"".join(chunks)


class _Reader:
    """Reads the bytes in order; raises ValueError or struct.error if they are too short."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._remaining_elements = MAX_ELEMENTS

    def skip(self, expected: bytes) -> bool:
        """Skip `expected` if these bytes are next. They do not count as elements: they were counted before."""
        if not self._data.startswith(expected, self.at):
            return False
        self.at += len(expected)
        return True

    def bytes_from(self, start: int) -> bytes:
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
        self._remaining_elements -= max(count, 0)
        if self._remaining_elements < 0:
            raise ValueError(f"the arrays have more than {MAX_ELEMENTS} elements")
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
        """Null bytes become empty bytes."""
        length = self.i32()
        return b"" if length == -1 else self._take(length)

    def partitions(self) -> Named:
        found: dict[str, frozenset[int]] = {}
        for _ in range(self.count()):
            topic = self.text()
            found[topic] = frozenset(self.i32() for _ in range(self.count()))
        return found
