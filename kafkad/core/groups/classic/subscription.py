"""Which topics are the members of a classic group subscribed to, when they are consumers?

Their metadata is their own (the "consumer" embedded protocol). The coordinator reads only the part with which all
versions of it begin, to know whose offsets may expire. When it can't read that, the topics are unknown, nothing worse.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError

CONSUMER_PROTOCOL_TYPE = "consumer"

MOST_NAMES = 1_000_000
"""The most names that are read of all members: about 200 ms in which other requests wait. A name may take two bytes."""

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")
_BYTES_LENGTH = Struct(">i")


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all; None if one of them can't be read, or they are too many. Members mostly send the same bytes,
    which are read once."""
    topics: set[str] = set()
    left = MOST_NAMES
    try:
        for subscription in set(metadata):
            names = _read_topics(subscription, left)
            left -= len(names)
            topics.update(names)
    except (StructError, ValueError):
        return None
    return frozenset(topics)


def _read_topics(subscription: bytes, most: int) -> list[str]:
    _version, count = _HEAD.unpack_from(subscription)
    if count < 0:
        raise ValueError("a subscription has topics, if only none")
    if count > most:
        raise ValueError(f"{count} names, {most} are read at most")
    at = _HEAD.size
    topics = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(subscription, at)
        at += _LENGTH.size
        if length < 0 or at + length > len(subscription):
            raise ValueError("a topic's name is longer than the subscription")
        topics.append(subscription[at : at + length].decode())
        at += length
    (user_data,) = _BYTES_LENGTH.unpack_from(subscription, at)
    if at + _BYTES_LENGTH.size + max(user_data, 0) > len(subscription):
        raise ValueError("the user data is longer than the subscription")
    return topics
