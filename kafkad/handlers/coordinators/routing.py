"""Which internal partition is a request about, and if it is about several, how is it cut and its answer put together?

A request about one group or transactional id goes on as it came: only its key is looked at. Of one that names
several, each internal partition gets a request of its own with what concerns it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from kafkad.core.controller.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.errors import ErrorCode
from kafkad.handlers.coordinators import describe_transactions, lists
from kafkad.wire import api_table
from kafkad.wire.api_table import APIS
from kafkad.wire.kio_codec import codec
from kafkad.wire.primitives import MalformedRequest, read_compact_string, read_string


class Piece(NamedTuple):
    """What one internal partition is asked. `partition` is -1 as long as the internal topic is not there."""

    partition: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Single:
    """The request has one key: its string number `position`."""

    position: int = 0


@dataclass(frozen=True, slots=True)
class Batched:
    """The request names several keys in `elements`; the answers are in `results`."""

    elements: str
    results: str
    key: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Everywhere:
    """Every shard is asked the same; the answers are in `results`, beside one error code for all."""

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
    api_table.OFFSET_FETCH: ((0, _SINGLE), (8, Batched("groups", "groups", _group_id))),
    api_table.TXN_OFFSET_COMMIT: ((0, Single(1)),),
    api_table.ADD_PARTITIONS_TO_TXN: (
        (0, _SINGLE),
        (4, Batched("transactions", "results_by_transaction", _transactional_id)),
    ),
    api_table.DESCRIBE_GROUPS: ((0, Batched("groups", "groups", _itself)),),
    api_table.DELETE_GROUPS: ((0, Batched("groups_names", "results", _itself)),),
    api_table.CONSUMER_GROUP_DESCRIBE: ((0, Batched("group_ids", "groups", _itself)),),
    api_table.DESCRIBE_TRANSACTIONS: ((0, Batched("transactional_ids", "transaction_states", _itself)),),
    api_table.LIST_GROUPS: ((0, Everywhere("groups")),),
    api_table.LIST_TRANSACTIONS: ((0, Everywhere("transaction_states")),),
}
"""(first version, shape) of the requests that are not simply about the key that comes first."""
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
"""Answered when others have come, or time has passed: a broker that stops does not wait for that."""


_LARGE_PART = {api_table.JOIN_GROUP: "protocols", api_table.SYNC_GROUP: "assignments"}
_SMALL_BYTES = 4096


def slim(api_key: int, request: Any) -> Any:
    """What a refusal has to know of a request that may wait for minutes, without what may be megabytes."""
    large = _LARGE_PART.get(api_key)
    return request if large is None else replace(request, **{large: ()})


def kept(api_key: int, name: str, version: int, body: bytes) -> bytes:
    """The body to keep while the request waits. Raises MalformedRequest."""
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
    """What the internal partitions are asked; `partitions` is 0 while there are none. Raises MalformedRequest."""
    shape = shape_of(api_key, version)
    match shape:
        case Single(position):
            key = peek(body, APIS[api_key].flexible_from <= version, position) or ""
            return [Piece(_place(key, partitions), bytes(body))]
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


def _cut(shape: Batched, name: str, version: int, body: memoryview, partitions: int) -> list[Piece]:
    messages = codec(name, version)
    request = messages.decode(body)
    elements = getattr(request, shape.elements)
    if elements is None:
        raise MalformedRequest(f"{name} without {shape.elements}")
    by_partition: dict[int, list[Any]] = {}
    for element in elements:
        by_partition.setdefault(_place(shape.key(element), partitions), []).append(element)
    if len(by_partition) == 1:
        return [Piece(partition, bytes(body)) for partition in by_partition]
    return [
        Piece(partition, messages.encode_request(replace(request, **{shape.elements: tuple(part)})))
        for partition, part in by_partition.items()
    ]


def merge(api_key: int, name: str, version: int, answers: Sequence[bytes]) -> bytes:
    """One response body of those of the pieces, in their order."""
    if len(answers) == 1:
        return answers[0]
    shape = shape_of(api_key, version)
    assert not isinstance(shape, Single), f"{name} has one piece"
    if api_key == api_table.DESCRIBE_TRANSACTIONS:
        return describe_transactions.merge(answers)
    messages = codec(name, version)
    if not answers:
        return messages.encode(**{"error_code": ErrorCode.NONE, "unknown_state_filters": (), shape.results: ()})
    if isinstance(shape, Everywhere):
        return lists.joined(api_key, version, answers)
    responses = [messages.decode_response(answer) for answer in answers]
    rows = tuple(row for response in responses for row in getattr(response, shape.results))
    return messages.encode_response(replace(responses[0], **{shape.results: rows}))


def code_when_lost(api_key: int) -> ErrorCode:
    """What a piece gets whose worker can't be asked: it is about to be replaced, so the client comes again."""
    if isinstance(shape_of(api_key, 0), Everywhere):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.NOT_COORDINATOR
