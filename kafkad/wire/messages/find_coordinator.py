"""FindCoordinator, versions 0 to 6, by hand and in steps: an admin tool may send the ids of all groups at once."""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple

from kafkad.wire.api_table import APIS, FIND_COORDINATOR
from kafkad.wire.body_reader import BodyReader
from kafkad.wire.error_counts import count_error
from kafkad.wire.primitives import EMPTY_TAGS, I16, I32, NOT_THROTTLED, array_length, compact_string, string
from kafkad.wire.request_limits import allowance_of
from kafkad.wire.steps import Reading

BATCHED_FROM = 4
_FLEXIBLE_FROM = APIS[FIND_COORDINATOR].flexible_from
_PORT_AND_CODE = Struct(">ih")


class FindCoordinatorRequest(NamedTuple):
    key_type: int
    keys: Sequence[str]


class FoundCoordinator(NamedTuple):
    key: str
    error: int
    node: tuple[int, str, int] = (-1, "", -1)
    """Id, host, port."""
    message: str = ""


def read_request(body: memoryview, version: int) -> Reading[FindCoordinatorRequest]:
    reader = BodyReader(body, allowance_of(FIND_COORDINATOR), flexible=version >= _FLEXIBLE_FROM)
    keys = []
    if version < BATCHED_FROM:
        keys.append(reader.text())
        key_type = reader.i8() if version >= 1 else 0
    else:
        key_type = reader.i8()
        for _ in range(reader.count()):
            keys.append(reader.text())
            if reader.is_step_over():
                yield
    reader.tags()
    return FindCoordinatorRequest(key_type, keys)


def pack_single(version: int, found: FoundCoordinator) -> bytes:
    """The response in versions 0 to 3, which have one key."""
    count_error(found.error)
    flexible = version >= _FLEXIBLE_FROM
    text = compact_string if flexible else string
    node_id, host, port = found.node
    head = I16.pack(found.error)
    if version >= 1:
        head = NOT_THROTTLED + head + text(found.message)
    return head + I32.pack(node_id) + text(host) + I32.pack(port) + (EMPTY_TAGS if flexible else b"")


def pack_rows(rows: Iterable[FoundCoordinator]) -> bytes:
    """Some rows of the response in version 4 and later, which have many keys."""
    packed: list[bytes] = []
    for key, error, (node_id, host, port), message in rows:
        count_error(error)
        packed += (
            compact_string(key),
            I32.pack(node_id),
            compact_string(host),
            _PORT_AND_CODE.pack(port, error),
            compact_string(message),
            EMPTY_TAGS,
        )
    return b"".join(packed)


def pack_batched(count: int, packed: Iterable[bytes]) -> bytes:
    """The response in version 4 and later, from `count` rows of `pack_rows`."""
    return b"".join((NOT_THROTTLED, array_length(count, flexible=True), *packed, EMPTY_TAGS))
