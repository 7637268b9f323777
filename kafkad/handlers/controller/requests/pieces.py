"""Splits requests about very many resources into pieces, so that the controller serves other requests in between.

Each piece is a separate request, and the responses are joined. Resources with results that depend on each other are in
the same piece. A request that is rejected as a whole is not split.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kafkad.core.controller.controller import Controller
from kafkad.core.controller.image import Topic
from kafkad.core.controller.topics.names import CLUSTER_METADATA_TOPIC, name_in_metrics
from kafkad.core.controller.topics.topics import (
    NewTopic,
    adds_too_many_partitions,
    partitions_of,
    requests_too_many_partitions,
)
from kafkad.core.types import NO_TOPIC_ID
from kafkad.handlers.controller.create_partitions import new_partitions
from kafkad.handlers.controller.create_topics import new_topic
from kafkad.wire import api_table
from kafkad.wire.api_table import APIS
from kafkad.wire.joining import join_arrays
from kafkad.wire.kio_codec import codec, milliseconds

_RESOURCES = 10
"""Resources to describe or alter per piece: a broker has two hundred options."""
_PARTITIONS = 100
"""Partitions to create per piece. Other requests wait until the owners have created their logs."""
_PARTITIONS_DELETED = 500
_DELETED_BY_ID_FROM = 6
_SMALL_BYTES = 256
_HEAD_SIZE = 4
_MANY = 100
_COSTLY_WHEN_SMALL = frozenset({api_table.CREATE_TOPICS, api_table.CREATE_PARTITIONS})
"""A few bytes can request ten thousand partitions."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """`bodies` make the body of each piece. `timeout_ms` is the request's timeout, if it has one."""

    bodies: Sequence[Callable[[], bytes]]
    timeout_ms: int | None = None


Cut = Callable[[Any, int, Controller], list[list[Any]]]
"""Splits the resources of a request in a version into pieces."""


def pieces_of(api_key: int, version: int, body: memoryview, controller: Controller) -> Pieces:
    """Raises MalformedRequest."""
    cut = _CUTS.get(api_key)
    if cut is None or (len(body) <= _SMALL_BYTES and api_key not in _COSTLY_WHEN_SMALL):
        return Pieces([partial(bytes, body)])
    name, fields, resources_of = cut
    messages = codec(name, version)
    request = messages.decode(body)
    field = next(each for each in fields if hasattr(request, each))
    cuts = resources_of(request, version, controller)
    if len(cuts) <= 1 and sum(map(len, cuts)) == len(getattr(request, field)):
        return Pieces([partial(bytes, body)])
    bodies = [partial(_with, messages, request, field, each) for each in cuts]
    timeout = getattr(request, "timeout", None)
    return Pieces(bodies, None if timeout is None else milliseconds(timeout))


def pieces_of_names(names: Sequence[str], controller: Controller) -> list[list[str]]:
    """Splits the names of topics to auto-create."""
    internal, defaults = controller.settings.internal_topics, controller.settings.defaults
    topics = [internal.get(name) or NewTopic(name=name) for name in dict.fromkeys(names)]
    if requests_too_many_partitions(topics, defaults):
        return [list(names)]
    pieces = _by_cost(topics, lambda each: each.name, lambda each: partitions_of(each, defaults), _PARTITIONS)
    return [[each.name for each in piece] for piece in pieces]


def distinct(resources: Sequence[Any]) -> Sequence[Any]:
    """Without duplicates if there are very many resources: duplicates have equal results, which may be large."""
    return resources if len(resources) <= _MANY else tuple(dict.fromkeys(resources))


def _with(messages: Any, request: Any, field: str, resources: Sequence[Any]) -> bytes:
    body: bytes = messages.encode_request(replace(request, **{field: tuple(resources)}))
    return body


def _described(request: Any, _version: int, _controller: Controller) -> list[list[Any]]:
    """A resource may occur many times with different keys; each costs as much as a different resource."""
    resources = distinct(request.resources)
    return [list(resources[at : at + _RESOURCES]) for at in range(0, len(resources), _RESOURCES)]


def _altered(request: Any, _version: int, _controller: Controller) -> list[list[Any]]:
    """Entries for the same resource are in one piece, because duplicates are rejected."""
    return _by_cost(
        request.resources, lambda each: (each.resource_type, each.resource_name), lambda _each: 1, _RESOURCES
    )


def _created(request: Any, _version: int, controller: Controller) -> list[list[Any]]:
    """Topics that are always rejected come last, as in the response to the whole request."""
    defaults = controller.settings.defaults
    if requests_too_many_partitions([new_topic(each) for each in request.topics], defaults):
        return [list(request.topics)]
    counts = Counter(each.name for each in request.topics)
    rejected = [each for each in request.topics if counts[each.name] > 1 or each.name == CLUSTER_METADATA_TOPIC]
    others = [each for each in request.topics if counts[each.name] == 1 and each.name != CLUSTER_METADATA_TOPIC]
    # With validate_only a topic does not exist yet when the next piece is checked.
    same = name_in_metrics if request.validate_only else str
    return _by_cost(
        [*others, *rejected],
        lambda each: same(each.name),
        lambda each: max(1, partitions_of(new_topic(each), defaults)),
        _PARTITIONS,
    )


def _extended(request: Any, _version: int, controller: Controller) -> list[list[Any]]:
    """Duplicates come first, as in the response to the whole request."""
    topics = controller.image.topics
    if adds_too_many_partitions([new_partitions(each) for each in request.topics], topics):
        return [list(request.topics)]
    counts = Counter(each.name for each in request.topics)

    def cost(each: Any) -> int:
        return max(1, each.count - len(topics[each.name].partitions)) if each.name in topics else 1

    ordered = sorted(request.topics, key=lambda each: counts[each.name] == 1)
    return _by_cost(ordered, lambda each: each.name, cost, _PARTITIONS)


def _deleted(request: Any, version: int, controller: Controller) -> list[list[Any]]:
    """Entries for the same topic are in one piece, also entries by name and by id."""
    image = controller.image

    def topic_of(each: Any) -> Topic | None:
        if version < _DELETED_BY_ID_FROM:
            return image.topics.get(each)
        return image.topics.get(each.name) if each.name is not None else image.topic_by_id(each.topic_id or NO_TOPIC_ID)

    def same(each: Any) -> Hashable:
        topic = topic_of(each)
        return each if topic is None else topic.id

    def cost(each: Any) -> int:
        topic = topic_of(each)
        return 1 if topic is None else len(topic.partitions)

    entries = request.topics if version >= _DELETED_BY_ID_FROM else request.topic_names
    return _by_cost(entries, same, cost, _PARTITIONS_DELETED)


_CUTS: dict[int, tuple[str, tuple[str, ...], Cut]] = {
    api_table.CREATE_TOPICS: ("create_topics", ("topics",), _created),
    api_table.DELETE_TOPICS: ("delete_topics", ("topics", "topic_names"), _deleted),
    api_table.CREATE_PARTITIONS: ("create_partitions", ("topics",), _extended),
    api_table.DESCRIBE_CONFIGS: ("describe_configs", ("resources",), _described),
    api_table.ALTER_CONFIGS: ("alter_configs", ("resources",), _altered),
    api_table.INCREMENTAL_ALTER_CONFIGS: ("incremental_alter_configs", ("resources",), _altered),
}
"""By API: kio's package, the names of the array to split in all versions, and the function that splits."""


def _by_cost(
    resources: Iterable[Any], same: Callable[[Any], Hashable], cost: Callable[[Any], int], most: int
) -> list[list[Any]]:
    """Pieces that cost at most `most`; resources with equal `same` are always in one piece."""
    groups: dict[Hashable, list[Any]] = {}
    for each in resources:
        groups.setdefault(same(each), []).append(each)
    pieces: list[list[Any]] = []
    remaining = 0
    for group in groups.values():
        group_cost = sum(map(cost, group))
        if not pieces or group_cost > remaining:
            pieces.append([])
            remaining = most
        remaining -= group_cost
        pieces[-1] += group
    return pieces


def joined(api_key: int, version: int, responses: Sequence[bytes]) -> bytes:
    """The response body, joined from the responses to the pieces in order."""
    if len(responses) == 1:
        return responses[0]
    return join_arrays(responses, _HEAD_SIZE, flexible=APIS[api_key].flexible_from <= version)
