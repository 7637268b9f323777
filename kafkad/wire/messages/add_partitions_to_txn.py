"""Packs responses of AddPartitionsToTxn by hand: one response may have results of ten thousand partitions.

The throttle time is always 0. Tests compare every version with kio's schemas.
"""

from collections.abc import Iterable, Sequence
from struct import Struct

from kafkad.wire.error_counts import count_errors
from kafkad.wire.primitives import EMPTY_TAGS, NOT_THROTTLED, array_length, compact_string, string

FLEXIBLE_FROM = 3
_RESULT = Struct(">ih")
_RESULT_AND_TAGS = Struct(">ihx")
_NO_ERROR = b"\0\0"

Topics = Sequence[tuple[str, Sequence[tuple[int, int]]]]
"""(topic, (partition, code) of each)."""


def pack_one(version: int, topics: Topics) -> bytes:
    """Versions 0 to 3, about one transaction."""
    flexible = version >= FLEXIBLE_FROM
    return NOT_THROTTLED + _topics(topics, flexible=flexible) + (EMPTY_TAGS if flexible else b"")


def pack_several(transactions: Iterable[tuple[str, Topics]]) -> bytes:
    """Versions 4 and 5: (transactional id, topics) of each transaction."""
    rows = [
        compact_string(transactional_id) + _topics(topics, flexible=True) + EMPTY_TAGS
        for transactional_id, topics in transactions
    ]
    return b"".join((NOT_THROTTLED, _NO_ERROR, array_length(len(rows), flexible=True), *rows, EMPTY_TAGS))


def _topics(topics: Topics, *, flexible: bool) -> bytes:
    form = _RESULT_AND_TAGS if flexible else _RESULT
    tags = EMPTY_TAGS if flexible else b""
    text = compact_string if flexible else string
    rows = [array_length(len(topics), flexible=flexible)]
    for name, partitions in topics:
        count_errors(code for _, code in partitions)
        rows += (text(name), array_length(len(partitions), flexible=flexible))
        rows += (form.pack(partition, code) for partition, code in partitions)
        rows.append(tags)
    return b"".join(rows)
