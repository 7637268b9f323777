"""Which topics are the members of a classic group subscribed to, if they are consumers?

Their metadata is in the "consumer" embedded protocol. The coordinator reads only the beginning, which all versions
share, to determine which offsets may expire. If the metadata can't be read, the topics are unknown.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError

CONSUMER_PROTOCOL_TYPE = "consumer"

MAX_NAMES = 1_000_000
"""Limit of names read of all members: about 200 ms in which other requests wait. A name may have two bytes."""

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")
_BYTES_LENGTH = Struct(">i")


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members; None if one can't be read, or they are too many. Equal metadata, the usual case, is
    read once."""
    topics: set[str] = set()
    remaining = MAX_NAMES
    try:
        for subscription in set(metadata):
            names = _read_topics(subscription, remaining)
            remaining -= len(names)
            topics.update(names)
    except (StructError, ValueError):
        return None
    return frozenset(topics)


def _read_topics(subscription: bytes, max_names: int) -> list[str]:
    _version, count = _HEAD.unpack_from(subscription)
    if count < 0:
        raise ValueError("the number of topics is negative")
    if count > max_names:
        raise ValueError(f"{count} topics exceed the limit of {max_names}")
    at = _HEAD.size
    topics = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(subscription, at)
        at += _LENGTH.size
        if length < 0 or at + length > len(subscription):
            raise ValueError("a topic name exceeds the subscription")
        topics.append(subscription[at : at + length].decode())
        at += length
    (user_data,) = _BYTES_LENGTH.unpack_from(subscription, at)
    if at + _BYTES_LENGTH.size + max(user_data, 0) > len(subscription):
        raise ValueError("the user data exceeds the subscription")
    return topics
