"""OffsetForLeaderEpoch, versions 2 to 4, by hand: consumers send it after each leader change."""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from kafkad.wire.api_table import OFFSET_FOR_LEADER_EPOCH
from kafkad.wire.body_reader import BodyReader
from kafkad.wire.error_counts import count_errors
from kafkad.wire.primitives import EMPTY_TAGS, I32, array_length, compact_string, string
from kafkad.wire.request_limits import allowance_of
from kafkad.wire.steps import Reading

FLEXIBLE_FROM = 4
_RESULT = Struct(">hiiq")


class RequestedEpoch(NamedTuple):
    """`current_leader_epoch` is -1 if the client does not send it; `leader_epoch` is the requested epoch."""

    partition: int
    current_leader_epoch: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    error: int
    partition: int
    leader_epoch: int = -1
    end_offset: int = -1


def read_request(body: memoryview, version: int) -> Reading[list[tuple[str, list[RequestedEpoch]]]]:
    reader = BodyReader(body, allowance_of(OFFSET_FOR_LEADER_EPOCH), flexible=version >= FLEXIBLE_FROM)
    if version >= 3:
        reader.i32()  # The replica id: consumers and followers get the same response.
    topics = []
    for _ in range(reader.count()):
        name = reader.text()
        partitions = []
        for _ in range(reader.count()):
            partitions.append(RequestedEpoch(reader.i32(), reader.i32(), reader.i32()))
            reader.tags()
            if reader.is_step_over():
                yield
        reader.tags()
        topics.append((name, partitions))
        if reader.is_step_over():
            yield
    reader.tags()
    return topics


def pack_topic(version: int, name: str, results: Sequence[EpochEnd]) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    tags = EMPTY_TAGS if flexible else b""
    head = compact_string(name) if flexible else string(name)
    count_errors(result.error for result in results)
    packed = [_RESULT.pack(*result) + tags for result in results]
    return head + array_length(len(packed), flexible=flexible) + b"".join(packed) + tags


def pack_response(version: int, rows: Sequence[bytes]) -> bytes:
    """The body, from topics of `pack_topic`."""
    flexible = version >= FLEXIBLE_FROM
    tags = EMPTY_TAGS if flexible else b""
    return I32.pack(0) + array_length(len(rows), flexible=flexible) + b"".join(rows) + tags
