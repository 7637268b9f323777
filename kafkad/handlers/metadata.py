"""Metadata, versions 0 to 13: the brokers and topics, from this process's copy of the metadata.

Two steps: `unknown_topics` names the topics that the controller may create for the request, `response` makes the
response. Illegal names are never sent to the controller.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from kafkad.core.controller.image import NO_CONTROLLER, Topic
from kafkad.core.controller.topics.names import is_internal
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.topic_errors import is_legal, unknown_topic_error
from kafkad.handlers.requests.broker_rows import broker_rows
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.operations import CLUSTER_OPERATIONS, NOT_REQUESTED, TOPIC_OPERATIONS
from kafkad.handlers.requests.steps import ROWS_A_STEP, Pause, Steps, Waits
from kafkad.wire.error_counts import count_error
from kafkad.wire.messages.metadata import NO_TOPIC_ID, MetadataRequest, RequestedTopic, pack_response, pack_topic

TOPIC_IDS_REQUESTED_FROM = 12
STEP_TOPICS = 50
_NO_ERRORS: Mapping[str, int] = {}


def unknown_topics(request: MetadataRequest, context: RequestContext, view: BrokerView) -> frozenset[str]:
    """The names to create, if topics are auto-created."""
    topics = request.topics
    if topics is None or not request.allow_auto_topic_creation or _is_by_id(topics):
        return frozenset()
    if _is_invalid(topics, context.version):
        return frozenset()
    existing = view.image.topics
    names = {topic.name for topic in topics if topic.name is not None and topic.name not in existing}
    return frozenset(name for name in names if is_legal(name))


def response(
    request: MetadataRequest, context: RequestContext, view: BrokerView, errors: Mapping[str, int] = _NO_ERRORS
) -> Steps:
    """The steps that make the response body. `errors` has the codes of topics that the controller should create."""
    image, cache, version = view.image, view.metadata_cache, context.version
    cache.update(image, view.broker_id)
    if request.topics is None:
        key = (version, *request[1:], *broker_rows(context, view))
        cached = cache.full_response(key)
        if cached is not None:
            return cached
        body = _pack(request, context, view, (yield from _packed(image.topics.values(), context, view)))
        cache.add_full_response(key, image, body, version, context.connection.listener, view.broker_id)
        return body
    unknown_ids: list[bytes] = []
    if _is_invalid(request.topics, version):
        return _error_response(request.topics, version)
    elif _is_by_id(request.topics):
        unknown_ids, packed = yield from _by_id(request.topics, context, view)
    else:
        packed = yield from _by_name(request.topics, context, view, errors)
    return _pack(request, context, view, packed, unknown_ids)


def _pack(
    request: MetadataRequest,
    context: RequestContext,
    view: BrokerView,
    packed: list[bytes],
    unknown_ids: Sequence[bytes] = (),
) -> bytes:
    return pack_response(
        context.version,
        brokers=broker_rows(context, view),
        cluster_id=view.image.cluster_id or None,
        controller_id=view.controller_id,
        unknown_ids=unknown_ids,
        topics=packed,
        topic_operations=TOPIC_OPERATIONS if request.include_topic_operations else NOT_REQUESTED,
        cluster_operations=CLUSTER_OPERATIONS if request.include_cluster_operations else NOT_REQUESTED,
    )


def _by_name(
    topics: Iterable[RequestedTopic], context: RequestContext, view: BrokerView, errors: Mapping[str, int]
) -> Generator[Waits, Any, list[bytes]]:
    existing: dict[str, Topic] = {}
    missing: dict[str, bytes] = {}
    topics_by_name = view.image.topics
    for number, requested in enumerate(topics, 1):
        if number % ROWS_A_STEP == 0:
            yield Pause.TURN
        name = requested.name
        assert name is not None
        topic = topics_by_name.get(name)
        if topic is not None:
            existing[name] = topic
        elif name not in missing:
            error = _missing_topic_error(name, errors)
            count_error(error)
            missing[name] = pack_topic(context.version, error, name, NO_TOPIC_ID, is_internal(name), ())
    found = yield from _packed(existing.values(), context, view)
    return [*found, *missing.values()]


def _packed(topics: Iterable[Topic], context: RequestContext, view: BrokerView) -> Generator[Waits, Any, list[bytes]]:
    """Cached topics cost almost nothing, other topics in proportion to their partitions."""
    packed: list[bytes] = []
    rest = list(topics)
    client = context.version, context.connection.listener
    for at in range(0, len(rest), STEP_TOPICS):
        if at:
            yield Pause.TURN
        packed += view.metadata_cache.topics(rest[at : at + STEP_TOPICS], *client, view.broker_id)
    return packed


def _by_id(
    topics: Iterable[RequestedTopic], context: RequestContext, view: BrokerView
) -> Generator[Waits, Any, tuple[list[bytes], list[bytes]]]:
    """The unknown topics, and the known topics."""
    existing: dict[bytes, Topic] = {}
    missing: dict[bytes, bytes] = {}
    image = view.image
    for number, (topic_id, _name) in enumerate(topics, 1):
        if number % ROWS_A_STEP == 0:
            yield Pause.TURN
        topic = image.topic_by_id(UUID(bytes=topic_id))
        if topic is not None:
            existing[topic_id] = topic
        elif topic_id != NO_TOPIC_ID:
            count_error(ErrorCode.UNKNOWN_TOPIC_ID)
            missing[topic_id] = pack_topic(context.version, ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id, False, ())
    return list(missing.values()), (yield from _packed(existing.values(), context, view))


def _missing_topic_error(name: str, errors: Mapping[str, int]) -> int:
    error = errors.get(name)
    if error is None:
        return unknown_topic_error(name)
    # The topic was created, but was deleted again or has not reached this process yet: the client retries.
    return ErrorCode.LEADER_NOT_AVAILABLE if error == ErrorCode.NONE else error


def _is_by_id(topics: Iterable[RequestedTopic]) -> bool:
    """Whether any topic has an id: then names are ignored, as in Apache Kafka."""
    return any(topic.topic_id != NO_TOPIC_ID for topic in topics)


def _is_invalid(topics: Iterable[RequestedTopic], version: int) -> bool:
    """Whether a topic has no valid key: in versions 10 and 11 ids must be null; later versions require name or id."""
    if version >= TOPIC_IDS_REQUESTED_FROM:
        return any(topic.name is None and topic.topic_id == NO_TOPIC_ID for topic in topics)
    return any(topic.name is None or topic.topic_id != NO_TOPIC_ID for topic in topics)


def _error_response(topics: Iterable[RequestedTopic], version: int) -> bytes:
    error = ErrorCode.INVALID_REQUEST
    count_error(error)
    return pack_response(
        version,
        brokers=(),
        cluster_id=None,
        controller_id=NO_CONTROLLER,
        topics=[pack_topic(version, error, topic.name or "", topic.topic_id, False, ()) for topic in topics],
        error=error,
    )
