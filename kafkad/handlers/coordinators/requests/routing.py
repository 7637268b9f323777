"""Which internal partition is a request about? If there are several, how is it split, and how are the answers joined?

A request about one group or transactional id is passed on unchanged: only its key is read. If a request names several,
each internal partition gets a request of its own with its part of the keys.
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

    The body of a portion is packed when its turn comes: packing all of them at once would take too long.
    """

    partition: int
    body: bytes | Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Single:
    """The request has one key: its string number `position`.

    `partitions` is the field with a topic's partitions, if a large request may be split into portions.
    """

    position: int = 0
    partitions: str = ""


@dataclass(frozen=True, slots=True)
class Batched:
    """The request names several keys in `elements`; the answers are in `results`, behind `head` bytes."""

    elements: str
    results: str
    key: Callable[[Any], str]
    head: int = 4
    partitions: str = ""
    """The field with a topic's partitions, if the elements have topics."""


@dataclass(frozen=True, slots=True)
class Everywhere:
    """Every shard gets the same request; the answers are in `results`, beside one error code for all."""

    results: str


Shape = Single | Batched | Everywhere


def _itself(element: Any) -> str:
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
        (0, Batched("groups", "groups", _itself, head=0)),
        (1, Batched("groups", "groups", _itself)),
    ),
    api_table.DELETE_GROUPS: ((0, Batched("groups_names", "results", _itself)),),
    api_table.CONSUMER_GROUP_DESCRIBE: ((0, Batched("group_ids", "groups", _itself)),),
    api_table.DESCRIBE_TRANSACTIONS: ((0, Batched("transactional_ids", "transaction_states", _itself)),),
    api_table.LIST_GROUPS: ((0, Everywhere("groups")),),
    api_table.LIST_TRANSACTIONS: ((0, Everywhere("transaction_states")),),
}
"""(first version, shape) of the requests whose first field is not their only key."""
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
"""Requests that wait for other members or for a timer: a broker that stops does not wait for them."""


_LARGE_PART = {api_table.JOIN_GROUP: "protocols", api_table.SYNC_GROUP: "assignments"}
_SMALL_BYTES = 4096
_GROUP_WEIGHT = 50
_MANY = 100
_THROTTLE, _THROTTLED_FROM, _GROUP_ERROR_FROM = 4, 3, 2
"""For OffsetCommit and OffsetFetch: the size of a response's head.

Then the first version with it, and the first version with an error for each group.
"""


def slim(api_key: int, request: Any) -> Any:
    """The fields that a refusal needs of a request that may wait for minutes, without those that may be megabytes."""
    large = _LARGE_PART.get(api_key)
    return request if large is None else replace(request, **{large: ()})


def kept(api_key: int, name: str, version: int, piece: Piece) -> bytes | None:
    """The body to keep while the request waits; None: it is not packed yet. Raises MalformedRequest."""
    body = piece.body
    if callable(body):
        return None
    if api_key not in _LARGE_PART or len(body) <= _SMALL_BYTES:
        return body
    messages = codec(name, version)
    return messages.encode_request(slim(api_key, messages.decode(memoryview(body))))


def topic_of(api_key: int) -> str:
    """The internal topic whose shards answer."""
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
        case Everywhere():
            codec(name, version).decode(body)
            return [Piece(partition, bytes(body)) for partition in range(partitions)]
        case Batched():
            return _cut(shape, name, version, body, partitions)


def peek(body: memoryview, flexible: bool, position: int = 0) -> str | None:
    """String number `position` of a body that begins with strings. Raises MalformedRequest."""
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
    """In a large request, a key that is named twice is asked for once: the answer is the same, and may be large."""
    messages = codec(name, version)
    request = messages.decode(body)
    named = getattr(request, shape.elements)
    if named is None:
        raise MalformedRequest(f"{name} without {shape.elements}")
    elements = named if len(named) <= _MANY else tuple(dict.fromkeys(named))
    by_partition: dict[int, list[Any]] = {}
    for element in elements:
        by_partition.setdefault(_place(shape.key(element), partitions), []).append(element)
    parts = [
        (partition, part)
        for partition, elements_there in by_partition.items()
        for part in _parts(shape, elements_there)
    ]
    if len(parts) == 1 and parts[0][1] == list(named):
        return [Piece(parts[0][0], bytes(body))]
    packing = [(partition, partial(_packed, messages, request, shape.elements, part)) for partition, part in parts]
    if shape.partitions and len(body) > LARGE_BYTES:
        return [Piece(partition, pack) for partition, pack in packing]
    return [Piece(partition, pack()) for partition, pack in packing]


def _parts(shape: Batched, elements: list[Any]) -> Iterator[list[Any]]:
    """Split into parts that cost a worker some ten milliseconds at most."""
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
    """A group of OffsetFetch with very many partitions is split into portions."""
    if shape.elements != "groups" or not shape.partitions or not element.topics:
        return [element]
    portions = portions_of(element.topics, shape.partitions)
    return [element] if len(portions) == 1 else [replace(element, topics=each) for each in portions]


def _weight(shape: Batched, element: Any) -> int:
    """The cost in partitions: describing a group costs as much as dozens, all offsets of a group cost the most."""
    if not shape.partitions:
        return _GROUP_WEIGHT
    if element.topics is None:
        return PORTION
    return 1 + sum(1 + len(getattr(topic, shape.partitions)) for topic in element.topics)


def merge(api_key: int, name: str, version: int, answers: Sequence[bytes]) -> bytes:
    """One response body, joined from those of the pieces in their order."""
    if len(answers) == 1:
        return answers[0]
    shape = shape_of(api_key, version)
    messages = codec(name, version)
    flexible = APIS[api_key].flexible_from <= version
    if isinstance(shape, Single):
        head = _THROTTLE if version >= _THROTTLED_FROM or api_key == api_table.TXN_OFFSET_COMMIT else 0
        has_error = api_key == api_table.OFFSET_FETCH and version >= _GROUP_ERROR_FROM
        return join_portions(answers, head, flexible=flexible, has_error=has_error)
    if isinstance(shape, Batched) and answers:
        if api_key == api_table.OFFSET_FETCH:
            answers = join_groups(answers)
        return join_arrays(answers, shape.head, flexible=flexible)
    if not answers:
        return messages.encode(**{"error_code": ErrorCode.NONE, "unknown_state_filters": (), shape.results: ()})
    return lists.joined(api_key, version, answers)


def asks_all(api_key: int) -> bool:
    """Whether all coordinators of this broker are asked: partitions that are led elsewhere have none here."""
    return isinstance(shape_of(api_key, 0), Everywhere)


def code_when_lost(api_key: int) -> ErrorCode:
    """The answer to a piece whose worker can't be reached: it is about to be replaced, so the client retries."""
    if asks_all(api_key):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.NOT_COORDINATOR
