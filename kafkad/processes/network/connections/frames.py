"""Received requests: their class, their memory, and the check of their length.

No length from the network is used before this check.
"""

from kafkad.wire.api_table import APIS, CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, OFFSET_COMMIT, PRODUCE
from kafkad.wire.framing import RequestHeader, foreign_protocol
from kafkad.wire.primitives import I16
from kafkad.wire.request_limits import LARGEST_BYTES

SMALLEST_FRAME = 8
ALONE = -1
_CLASSES = frozenset({PRODUCE, OFFSET_COMMIT, HEARTBEAT, CONSUMER_GROUP_HEARTBEAT})
_CLASS_BYTES = 32 * 1024
"""Larger group requests may not fit into the ring: they use the link, where smaller ones could overtake them."""


class Unacceptable(Exception):
    """The peer sent an invalid request: the connection is closed with this reason in one log line."""

    @classmethod
    def length(cls, length: int, most_bytes: int, first: bytes) -> "Unacceptable":
        """`first` are the first bytes, including the length; they may belong to another protocol."""
        protocol = foreign_protocol(first)
        if protocol is not None:
            return cls(f"this looks like {protocol}")
        return cls(f"a request length of {length} bytes is outside {SMALLEST_FRAME} to {most_bytes}")

    @classmethod
    def size(cls, length: int, rest: memoryview) -> "Unacceptable":
        """For any request except Produce; `rest` are the first bytes, including the length."""
        api = APIS.get(I16.unpack_from(rest, 4)[0])
        name = "" if api is None else f" for {api.name}"
        return cls(f"a request length of {length} bytes{name} exceeds the limit of {LARGEST_BYTES}")


def request_class_of(api_key: int, size: int) -> int:
    """The class of a request of `size` bytes.

    Requests of the same class may be in flight together; `ALONE` requests are exclusive. Workers handle the requests of
    a class for one partition or one group in the order of arrival.
    """
    return api_key if api_key in _CLASSES and (size <= _CLASS_BYTES or api_key == PRODUCE) else ALONE


class Frame:
    """A complete request. `arena_extent` is its extent in the arena, or None in private memory."""

    __slots__ = ("arena_extent", "arena_offset", "header", "view")

    def __init__(self, header: RequestHeader, view: memoryview, arena_extent: int | None, arena_offset: int) -> None:
        self.header = header
        self.view = view
        self.arena_extent = arena_extent
        self.arena_offset = arena_offset

    @property
    def body(self) -> memoryview:
        return self.view[self.header.body_at :]

    @property
    def request_class(self) -> int:
        return request_class_of(self.header.api_key, len(self.view))


class Filling:
    """An incomplete request: `got` of `total` bytes are in `view`."""

    __slots__ = ("arena_extent", "got", "total", "view")

    def __init__(self, view: memoryview, arena_extent: int | None, got: int, total: int) -> None:
        self.view = view
        self.arena_extent = arena_extent
        self.got = got
        self.total = total
