"""The messages between a fetcher process and the owners of followed logs: orders, and the state of the log after each.

Records are in the fetcher's arena; an order has their position.
"""

from collections.abc import Iterable, Iterator
from struct import Struct

from kafkad.core.replication.following.requests import FollowKind, FollowOrder, FollowResult

FOLLOW = 0x10
FOLLOWED = 0x11

_ORDER = Struct("<BIQiqQIqqi")
_RESULT = Struct("<BIQihqiq")


def pack_order(order: FollowOrder) -> bytes:
    return _ORDER.pack(*order)


def unpack_orders(frame: bytes) -> Iterator[FollowOrder]:
    for kind, *rest in _ORDER.iter_unpack(memoryview(frame)[1:]):
        yield FollowOrder(FollowKind(kind), *rest)


def pack_results(results: Iterable[FollowResult]) -> list[bytes]:
    return [_RESULT.pack(*result) for result in results]


def unpack_results(frame: bytes) -> list[FollowResult]:
    return [FollowResult(*row) for row in _RESULT.iter_unpack(memoryview(frame)[1:])]
