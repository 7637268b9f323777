"""Finds the internal partition of a coordinator request, splits requests by internal partition, joins the responses.

A request about one group or transactional id is forwarded unchanged: only its key is read. A request with several keys
is split into one request per internal partition with the keys of this partition.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

from kafkad.core.controller.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.errors import ErrorCode
from kafkad.handlers.coordinators.requests import lists
from kafkad.handlers.coordinators.requests.portions import LARGE_BYTES, PORTION, portions_of
from kafkad.wire import api_table
from kafkad.wire.api_table import APIS
from kafkad.wire.joining import join_arrays, join_groups, join_portions
from kafkad.wire.kio_codec import Codec, codec
from kafkad.wire.primitives import MalformedRequest, read_compact_string, read_string


class Piece(NamedTuple):
    """The request to one internal partition. `partition` is -1 while the internal topic does not exist.

    The body of a portion is packed just before it is sent: packing all at once would take too long.
    """

    partition: int
    body: bytes | Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Single:
    """The request has one key: its string at index `position`.

    `partitions` is the name of a topic's partitions, if large requests are split into portions.
    """

    position: int = 0
    partitions: str = ""


@dataclass(frozen=True, slots=True)
class Batched:
    """The request has several keys in `elements`; the response has `head` bytes, then the array `results`."""

    elements: str
    results: str
    key: Callable[[Any], str]
    head: int = 4
    partitions: str = ""
    """The name of a topic's partitions, if the elements have topics."""


@dataclass(frozen=True, slots=True)
class AllShards:
    """Every shard gets the same request; the response has one error code and the array `results`."""

    results: str


Shape = Single | Batched | AllShards


def _key_itself(element: Any) -> str:
    return str(element)


def _group_id(element: Any) -> str:
    return str(element.group_id)


def _transactional_id(element: Any) -> str:
    return str(element.transactional_id)


_SINGLE = Single()
_FROM: dict[int, tuple[tuple[int, Shape], ...]] = {
    api_table.OFFSET_COMMIT: ((0, Single(0, "partitions")),),
    api_table.OFFSET_FETCH: (
        (0, Single(0, "partition_indexes")),
        (8, Batched("groups", "groups", _group_id, partitions="partition_indexes")),
    ),
    api_table.TXN_OFFSET_COMMIT: ((0, Single(1, "partitions")),),
    api_table.ADD_PARTITIONS_TO_TXN: (
        (0, _SINGLE),
        (4, Batched("transactions", "results_by_transaction", _transactional_id, head=6, partitions="partitions")),
    ),
    api_table.DESCRIBE_GROUPS: (
        (0, Batched("groups", "groups", _key_itself, head=0)),
        (1, Batched("groups", "groups", _key_itself)),
    ),
    api_table.DELETE_GROUPS: ((0, Batched("groups_names", "results", _key_itself)),),
    api_table.CONSUMER_GROUP_DESCRIBE: ((0, Batched("group_ids", "groups", _key_itself)),),
    api_table.DESCRIBE_TRANSACTIONS: ((0, Batched("transactional_ids", "transaction_states", _key_itself)),),
    api_table.LIST_GROUPS: ((0, AllShards("groups")),),
    api_table.LIST_TRANSACTIONS: ((0, AllShards("transaction_states")),),
}
"""(first version, shape) of requests with more than one key, or with another key than the first field."""
_OF_TRANSACTIONS = frozenset(
    {
        api_table.INIT_PRODUCER_ID,
        api_table.ADD_PARTITIONS_TO_TXN,
        api_table.ADD_OFFSETS_TO_TXN,
        api_table.END_TXN,
        api_table.DESCRIBE_TRANSACTIONS,
        api_table.LIST_TRANSACTIONS,
    }
)

WAITING = frozenset({api_table.JOIN_GROUP, api_table.SYNC_GROUP})
"""Requests that wait for other members or for a timer: the shutdown of a broker does not wait for them."""


_LARGE_PART = {api_table.JOIN_GROUP: "protocols", api_table.SYNC_GROUP: "assignments"}
_SMALL_BYTES = 4096
_GROUP_WEIGHT = 50
_MANY = 100
_THROTTLE, _THROTTLED_FROM, _GROUP_ERROR_FROM = 4, 3, 2
"""For OffsetCommit and OffsetFetch: the size of the throttle time, the first version with it, and the first version
with an error for each group."""


def without_large_fields(api_key: int, request: Any) -> Any:
    """The request without its large fields, which `reject` does not use: it may wait for minutes."""
    large = _LARGE_PART.get(api_key)
    return request if large is None else replace(request, **{large: ()})


def body_to_keep(api_key: int, name: str, version: int, piece: Piece) -> bytes | None:
    """The body to keep while the request waits; None if it is not packed yet. Raises MalformedRequest."""
    body = piece.body
    if callable(body):
        return None
    if api_key not in _LARGE_PART or len(body) <= _SMALL_BYTES:
        return body
    messages = codec(name, version)
    return messages.encode_request(without_large_fields(api_key, messages.decode(memoryview(body))))


def topic_of(api_key: int) -> str:
    """The internal topic whose shards handle the request."""
    return TRANSACTION_STATE_TOPIC if api_key in _OF_TRANSACTIONS else GROUP_METADATA_TOPIC


@cache
def shape_of(api_key: int, version: int) -> Shape:
    shapes = _FROM.get(api_key, ((0, _SINGLE),))
    return next(shape for first, shape in reversed(shapes) if version >= first)


def split(api_key: int, name: str, version: int, body: memoryview, partitions: int) -> list[Piece]:
    """The requests to the internal partitions; `partitions` is 0 while the internal topic does not exist.

    Raises MalformedRequest.
    """
    shape = shape_of(api_key, version)
    match shape:
        case Single(position, field):
            key = peek(body, APIS[api_key].flexible_from <= version, position) or ""
            place = _place(key, partitions)
            if not field or len(body) <= LARGE_BYTES:
                return [Piece(place, bytes(body))]
            return _in_portions(field, place, name, version, body)
        case AllShards():
            codec(name, version).decode(body)
            return [Piece(partition, bytes(body)) for partition in range(partitions)]
        case Batched():
            return _cut(shape, name, version, body, partitions)


def peek(body: memoryview, flexible: bool, position: int = 0) -> str | None:
    """The string at index `position` of a body that begins with strings. Raises MalformedRequest."""
    at, text = 0, None
    for _ in range(position + 1):
        text, at = read_compact_string(body, at) if flexible else read_string(body, at)
    return text


def _place(key: str, partitions: int) -> int:
    return partition_for(key, partitions) if partitions else -1


def _in_portions(field: str, place: int, name: str, version: int, body: memoryview) -> list[Piece]:
    messages = codec(name, version)
    request = messages.decode(body)
    portions = portions_of(request.topics or (), field)
    if len(portions) <= 1:
        return [Piece(place, bytes(body))]
    return [Piece(place, partial(_packed, messages, request, "topics", each)) for each in portions]


def _packed(messages: Codec, request: Any, field: str, content: Sequence[Any]) -> bytes:
    return messages.encode_request(replace(request, **{field: tuple(content)}))


def _cut(shape: Batched, name: str, version: int, body: memoryview, partitions: int) -> list[Piece]:
    """In a large request duplicate keys are removed: their results are equal, and may be large."""
    messages = codec(name, version)
    request = messages.decode(body)
    requested_elements = getattr(request, shape.elements)
    if requested_elements is None:
        raise MalformedRequest(f"{name} without {shape.elements}")
    elements = requested_elements if len(requested_elements) <= _MANY else tuple(dict.fromkeys(requested_elements))
    by_partition: dict[int, list[Any]] = {}
    for element in elements:
        by_partition.setdefault(_place(shape.key(element), partitions), []).append(element)
    parts = [
        (partition, part)
        for partition, elements_of_partition in by_partition.items()
        for part in _parts(shape, elements_of_partition)
    ]
    if len(parts) == 1 and parts[0][1] == list(requested_elements):
        return [Piece(parts[0][0], bytes(body))]
    packing = [(partition, partial(_packed, messages, request, shape.elements, part)) for partition, part in parts]
    if shape.partitions and len(body) > LARGE_BYTES:
        return [Piece(partition, pack) for partition, pack in packing]
    return [Piece(partition, pack()) for partition, pack in packing]


def _parts(shape: Batched, elements: list[Any]) -> Iterator[list[Any]]:
    """Split into parts that take a worker about ten milliseconds at most."""
    part: list[Any] = []
    weight = 0
    for element in elements:
        portions = _portions_of(shape, element)
        is_cut = len(portions) > 1
        weight += _weight(shape, element)
        if part and (is_cut or weight > PORTION):
            yield part
            part, weight = [], _weight(shape, element)
        if is_cut:
            # Each group alone, so that its portions can be joined again.
            yield from ([portion] for portion in portions)
            weight = 0
        else:
            part.append(element)
    if part:
        yield part


def _portions_of(shape: Batched, element: Any) -> list[Any]:
    """The portions of a group of OffsetFetch with very many partitions; other elements are not split."""
    if shape.elements != "groups" or not shape.partitions or not element.topics:
        return [element]
    portions = portions_of(element.topics, shape.partitions)
    return [element] if len(portions) == 1 else [replace(element, topics=each) for each in portions]


def _weight(shape: Batched, element: Any) -> int:
    """The cost in partitions. Describing a group costs as much as dozens; all offsets of a group cost the most."""
    if not shape.partitions:
        return _GROUP_WEIGHT
    if element.topics is None:
        return PORTION
    return 1 + sum(1 + len(getattr(topic, shape.partitions)) for topic in element.topics)


def merge(api_key: int, name: str, version: int, responses: Sequence[bytes]) -> bytes:
    """The response body, joined from the responses to the pieces in order."""
    if len(responses) == 1:
        return responses[0]
    shape = shape_of(api_key, version)
    messages = codec(name, version)
    flexible = APIS[api_key].flexible_from <= version
    if isinstance(shape, Single):
        head = _THROTTLE if version >= _THROTTLED_FROM or api_key == api_table.TXN_OFFSET_COMMIT else 0
        has_error = api_key == api_table.OFFSET_FETCH and version >= _GROUP_ERROR_FROM
        return join_portions(responses, head, flexible=flexible, has_error=has_error)
    if isinstance(shape, Batched) and responses:
        if api_key == api_table.OFFSET_FETCH:
            responses = join_groups(responses)
        return join_arrays(responses, shape.head, flexible=flexible)
    if not responses:
        return messages.encode(**{"error_code": ErrorCode.NONE, "unknown_state_filters": (), shape.results: ()})
    return lists.joined(api_key, version, responses)


def is_for_all_shards(api_key: int) -> bool:
    """Whether the request goes to all coordinators of this broker, one per internal partition that it leads."""
    return isinstance(shape_of(api_key, 0), AllShards)


def code_when_lost(api_key: int) -> ErrorCode:
    """The error code of a piece whose worker is unreachable. A new incarnation replaces it, so clients should retry."""
    if is_for_all_shards(api_key):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.NOT_COORDINATOR
