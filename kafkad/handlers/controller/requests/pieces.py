"""Splits a request about very many resources into pieces, so that the controller serves other requests in between.

Each piece is a request of its own, and the answers are joined. Resources whose answers depend on each other are in the
same piece, and a request that is refused as a whole is not split.
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
"""Described or altered in a piece: a broker has two hundred options."""
_PARTITIONS = 100
"""Created in a piece. Other requests wait until the owners have made so many logs."""
_PARTITIONS_DELETED = 500
_DELETED_BY_ID_FROM = 6
_SMALL_BYTES = 256
_HEAD_SIZE = 4
_MANY = 100
_COSTLY_WHEN_SMALL = frozenset({api_table.CREATE_TOPICS, api_table.CREATE_PARTITIONS})
"""A few bytes ask for ten thousand partitions."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """`bodies` make the body of each piece. `timeout_ms` is that of the request, if it has one."""

    bodies: Sequence[Callable[[], bytes]]
    timeout_ms: int | None = None


Cut = Callable[[Any, int, Controller], list[list[Any]]]
"""The resources of a request at a version, cut into pieces."""


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
    """The topics to be created for requests that use them."""
    internal, defaults = controller.settings.internal_topics, controller.settings.defaults
    topics = [internal.get(name) or NewTopic(name=name) for name in dict.fromkeys(names)]
    if requests_too_many_partitions(topics, defaults):
        return [list(names)]
    pieces = _by_cost(topics, lambda each: each.name, lambda each: partitions_of(each, defaults), _PARTITIONS)
    return [[each.name for each in piece] for piece in pieces]


def distinct(resources: Sequence[Any]) -> Sequence[Any]:
    """Of very many, a resource that is named twice is described once: both answers would be the same, and large."""
    return resources if len(resources) <= _MANY else tuple(dict.fromkeys(resources))


def _with(messages: Any, request: Any, field: str, resources: Sequence[Any]) -> bytes:
    body: bytes = messages.encode_request(replace(request, **{field: tuple(resources)}))
    return body


def _described(request: Any, _version: int, _controller: Controller) -> list[list[Any]]:
    """The same resource may be named with other keys very often: each time costs as much."""
    resources = distinct(request.resources)
    return [list(resources[at : at + _RESOURCES]) for at in range(0, len(resources), _RESOURCES)]


def _altered(request: Any, _version: int, _controller: Controller) -> list[list[Any]]:
    """Entries for the same resource may be refused as duplicates."""
    return _by_cost(
        request.resources, lambda each: (each.resource_type, each.resource_name), lambda _each: 1, _RESOURCES
    )


def _created(request: Any, _version: int, controller: Controller) -> list[list[Any]]:
    """What is refused whatever else is there comes last, as in the answer to the whole request."""
    defaults = controller.settings.defaults
    if requests_too_many_partitions([new_topic(each) for each in request.topics], defaults):
        return [list(request.topics)]
    counts = Counter(each.name for each in request.topics)
    refused = [each for each in request.topics if counts[each.name] > 1 or each.name == CLUSTER_METADATA_TOPIC]
    others = [each for each in request.topics if counts[each.name] == 1 and each.name != CLUSTER_METADATA_TOPIC]
    # Topics that are only checked are not there when the next piece is.
    same = name_in_metrics if request.validate_only else str
    return _by_cost(
        [*others, *refused],
        lambda each: same(each.name),
        lambda each: max(1, partitions_of(new_topic(each), defaults)),
        _PARTITIONS,
    )


def _extended(request: Any, _version: int, controller: Controller) -> list[list[Any]]:
    """Duplicates come first, as in the answer to the whole request."""
    topics = controller.image.topics
    if adds_too_many_partitions([new_partitions(each) for each in request.topics], topics):
        return [list(request.topics)]
    counts = Counter(each.name for each in request.topics)

    def cost(each: Any) -> int:
        return max(1, each.count - len(topics[each.name].partitions)) if each.name in topics else 1

    ordered = sorted(request.topics, key=lambda each: counts[each.name] == 1)
    return _by_cost(ordered, lambda each: each.name, cost, _PARTITIONS)


def _deleted(request: Any, version: int, controller: Controller) -> list[list[Any]]:
    """The same topic may be named twice, also by its name and by its id."""
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
"""By API: kio's package, the array that is cut, by its names in the versions, and how."""


def _by_cost(
    resources: Iterable[Any], same: Callable[[Any], Hashable], cost: Callable[[Any], int], most: int
) -> list[list[Any]]:
    """Pieces of at most this cost, or of one group of resources that are the `same`."""
    groups: dict[Hashable, list[Any]] = {}
    for each in resources:
        groups.setdefault(same(each), []).append(each)
    pieces: list[list[Any]] = []
    left = 0
    for group in groups.values():
        price = sum(map(cost, group))
        if not pieces or price > left:
            pieces.append([])
            left = most
        left -= price
        pieces[-1] += group
    return pieces


def joined(api_key: int, version: int, answers: Sequence[bytes]) -> bytes:
    """The response body, joined from those of the pieces in their order."""
    if len(answers) == 1:
        return answers[0]
    return join_arrays(answers, _HEAD_SIZE, flexible=APIS[api_key].flexible_from <= version)
