"""Packs responses of the four APIs about committed offsets by hand: they are the most frequent requests of groups.

The throttle time is always 0. Tests compare every version with kio's schemas.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from struct import Struct
from uuid import UUID

from kafkad.wire.error_counts import count_error, count_errors
from kafkad.wire.primitives import EMPTY_TAGS, I16, NOT_THROTTLED, array_length, compact_string, string
from kafkad.wire.steps import STEP, Reading

COMMIT_FLEXIBLE_FROM = 8
TXN_COMMIT_FLEXIBLE_FROM = 3
FETCH_FLEXIBLE_FROM = 6
MANY_GROUPS_FROM = 8
_BY_TOPIC_ID_FROM = 10
_RESULT = Struct(">ih")
_RESULT_AND_TAGS = Struct(">ihx")
_DELETE_HEAD = Struct(">hi")
_OFFSET = Struct(">iq")
_OFFSET_AND_EPOCH = Struct(">iqi")

Results = Iterable[tuple[str, UUID, Sequence[tuple[int, int]]]]
"""(topic, topic id, (partition, code) of each)."""
FetchedTopics = Iterable[tuple[str, UUID, Collection[tuple[int, int, int, str, int]]]]
"""(topic, topic id, (partition, offset, leader epoch, metadata, code) of each)."""


def pack_commit(version: int, topics: Results) -> bytes:
    """OffsetCommit, versions 2 to 10."""
    flexible = version >= COMMIT_FLEXIBLE_FROM
    rows = _results(topics, flexible=flexible, by_id=version >= _BY_TOPIC_ID_FROM)
    return (NOT_THROTTLED if version >= 3 else b"") + rows + (EMPTY_TAGS if flexible else b"")


def pack_txn_commit(version: int, topics: Results) -> bytes:
    """TxnOffsetCommit, versions 0 to 5."""
    flexible = version >= TXN_COMMIT_FLEXIBLE_FROM
    rows = _results(topics, flexible=flexible, by_id=False)
    return NOT_THROTTLED + rows + (EMPTY_TAGS if flexible else b"")


def pack_delete(code: int, topics: Results) -> bytes:
    """OffsetDelete, version 0."""
    count_error(code)
    return _DELETE_HEAD.pack(code, 0) + _results(topics, flexible=False, by_id=False)


def pack_fetch(version: int, groups: Sequence[tuple[str, FetchedTopics, int]]) -> bytes:
    """OffsetFetch, versions 1 to 10; groups are (id, topics, code). Before version 8 there is exactly one."""
    packing = pack_fetch_in_steps(version, groups)
    while True:
        try:
            next(packing)
        except StopIteration as done:
            body: bytes = done.value
            return body


def pack_fetch_in_steps(version: int, groups: Sequence[tuple[str, FetchedTopics, int]]) -> Reading[bytes]:
    """As `pack_fetch`: a generator that yields after every few hundred partitions."""
    head = NOT_THROTTLED if version >= 3 else b""
    count_errors(code for _, _, code in groups)
    if version >= MANY_GROUPS_FROM:
        by_id = version >= _BY_TOPIC_ID_FROM
        rows = []
        for group_id, topics, code in groups:
            fetched = yield from _fetched(version, topics, by_id=by_id)
            rows.append(compact_string(group_id) + fetched + I16.pack(code) + EMPTY_TAGS)
        return head + array_length(len(rows), flexible=True) + b"".join(rows) + EMPTY_TAGS
    ((_, topics, code),) = groups
    tail = I16.pack(code) if version >= 2 else b""
    if version >= FETCH_FLEXIBLE_FROM:
        tail += EMPTY_TAGS
    fetched = yield from _fetched(version, topics, by_id=False)
    return head + fetched + tail


def _results(topics: Results, *, flexible: bool, by_id: bool) -> bytes:
    form = _RESULT_AND_TAGS if flexible else _RESULT
    tags = EMPTY_TAGS if flexible else b""
    rows = []
    for name, topic_id, partitions in topics:
        count_errors(code for _, code in partitions)
        packed = b"".join([form.pack(partition, code) for partition, code in partitions])
        head = _topic(name, topic_id, flexible=flexible, by_id=by_id)
        rows.append(head + array_length(len(partitions), flexible=flexible) + packed + tags)
    return array_length(len(rows), flexible=flexible) + b"".join(rows)


def _fetched(version: int, topics: FetchedTopics, *, by_id: bool) -> Reading[bytes]:
    flexible = version >= FETCH_FLEXIBLE_FROM
    tags = EMPTY_TAGS if flexible else b""
    rows = []
    since_pause = 0
    for name, topic_id, partitions in topics:
        remaining = iter(partitions)
        packed = []
        while portion := list(islice(remaining, STEP)):
            packed.append(_fetched_rows(version, portion))
            since_pause += len(portion)
            if since_pause >= STEP:
                since_pause = 0
                yield
        head = _topic(name, topic_id, flexible=flexible, by_id=by_id)
        rows.append(head + array_length(len(partitions), flexible=flexible) + b"".join(packed) + tags)
    return array_length(len(rows), flexible=flexible) + b"".join(rows)


def _fetched_rows(version: int, partitions: Sequence[tuple[int, int, int, str, int]]) -> bytes:
    flexible = version >= FETCH_FLEXIBLE_FROM
    tags = EMPTY_TAGS if flexible else b""
    text = compact_string if flexible else string
    packed = []
    count_errors(row[4] for row in partitions)
    for partition, offset, leader_epoch, metadata, code in partitions:
        fixed = (
            _OFFSET_AND_EPOCH.pack(partition, offset, leader_epoch) if version >= 5 else _OFFSET.pack(partition, offset)
        )
        packed.append(fixed + text(metadata) + I16.pack(code) + tags)
    return b"".join(packed)


def _topic(name: str, topic_id: UUID, *, flexible: bool, by_id: bool) -> bytes:
    if by_id:
        return topic_id.bytes
    return compact_string(name) if flexible else string(name)
