"""ListOffsets, versions 1 to 11, by hand: it is among the first requests of consumers, and kio's import is slow."""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple

from kafkad.wire.api_table import LIST_OFFSETS
from kafkad.wire.body_reader import BodyReader
from kafkad.wire.error_counts import count_error
from kafkad.wire.primitives import EMPTY_TAGS, I32, array_length, compact_string, string
from kafkad.wire.request_limits import allowance_of
from kafkad.wire.steps import Reading

FLEXIBLE_FROM = 6
LEADER_EPOCHS_FROM = 4
_RESULT = Struct(">ihqq")
_RESULT_WITH_EPOCH = Struct(">ihqqi")


class RequestedOffset(NamedTuple):
    """`current_leader_epoch` is -1 if the client does not send it."""

    partition: int
    current_leader_epoch: int
    timestamp: int


class ListOffsetsRequest(NamedTuple):
    """Topics in the order of the request, with duplicates."""

    replica_id: int
    isolation_level: int
    topics: list[tuple[str, list[RequestedOffset]]]


class OffsetResult(NamedTuple):
    """-1 is a missing value."""

    partition: int
    error: int
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


def read_request(body: memoryview, version: int) -> Reading[ListOffsetsRequest]:
    reader = BodyReader(body, allowance_of(LIST_OFFSETS), flexible=version >= FLEXIBLE_FROM)
    replica_id = reader.i32()
    isolation_level = reader.i8() if version >= 2 else 0
    topics = []
    for _ in range(reader.count()):
        name = reader.text()
        partitions = []
        for _ in range(reader.count()):
            index = reader.i32()
            epoch = reader.i32() if version >= LEADER_EPOCHS_FROM else -1
            partitions.append(RequestedOffset(index, epoch, reader.i64()))
            reader.tags()
            if reader.is_step_over():
                yield
        reader.tags()
        topics.append((name, partitions))
        if reader.is_step_over():
            yield
    if version >= 10:
        reader.i32()  # The timeout of remote storage, which kafkad does not support.
    reader.tags()
    return ListOffsetsRequest(replica_id, isolation_level, topics)


def pack_topic(version: int, name: str, results: Iterable[OffsetResult]) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    tags = EMPTY_TAGS if flexible else b""
    head = compact_string(name) if flexible else string(name)
    packed = [_pack(result, version) + tags for result in results]
    return head + array_length(len(packed), flexible=flexible) + b"".join(packed) + tags


def pack_response(version: int, rows: Sequence[bytes]) -> bytes:
    """The body, from topics of `pack_topic`."""
    flexible = version >= FLEXIBLE_FROM
    tags = EMPTY_TAGS if flexible else b""
    throttle = I32.pack(0) if version >= 2 else b""
    return throttle + array_length(len(rows), flexible=flexible) + b"".join(rows) + tags


def _pack(result: OffsetResult, version: int) -> bytes:
    count_error(result.error)
    return _RESULT_WITH_EPOCH.pack(*result) if version >= LEADER_EPOCHS_FROM else _RESULT.pack(*result[:4])
