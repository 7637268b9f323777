"""Requests as they arrive: their class, their place in memory, and which length one may claim.

No length from the network is believed before it was checked here.
"""

from kafkad.wire.api_table import APIS, CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, OFFSET_COMMIT, PRODUCE
from kafkad.wire.framing import RequestHeader, foreign_protocol
from kafkad.wire.primitives import I16
from kafkad.wire.request_limits import LARGEST_BYTES

SMALLEST_FRAME = 8
ALONE = -1
_CLASSES = frozenset({PRODUCE, OFFSET_COMMIT, HEARTBEAT, CONSUMER_GROUP_HEARTBEAT})
_CLASS_BYTES = 32 * 1024
"""Larger requests to groups may not fit into the ring and take the link, where smaller ones could overtake them."""


class Unacceptable(Exception):
    """What the peer sent can't be a request: the connection is closed with this reason in one log line."""

    @classmethod
    def length(cls, length: int, most_bytes: int, first: bytes) -> "Unacceptable":
        """`first` is what came first, length included: it may be another protocol's."""
        stranger = foreign_protocol(first)
        if stranger is not None:
            return cls(f"this looks like {stranger}")
        return cls(f"a request length of {length} bytes is outside {SMALLEST_FRAME} to {most_bytes}")

    @classmethod
    def size(cls, length: int, rest: memoryview) -> "Unacceptable":
        """Any request but Produce; `rest` is what came first, length included."""
        api = APIS.get(I16.unpack_from(rest, 4)[0])
        name = "" if api is None else f" for {api.name}"
        return cls(f"a request length of {length} bytes{name} is more than the {LARGEST_BYTES} that are taken")


def request_class_of(api_key: int, size: int) -> int:
    """The class of a request of `size` bytes.

    Requests of the same class may be under way together; one with `ALONE` is alone. Workers handle requests of a class
    in the order in which they came, for one partition or one group.
    """
    return api_key if api_key in _CLASSES and (size <= _CLASS_BYTES or api_key == PRODUCE) else ALONE


class Frame:
    """A complete request in memory. `arena_extent` is its place in the arena, or None in private memory."""

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
