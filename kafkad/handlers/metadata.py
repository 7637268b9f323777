"""Metadata, versions 0 to 13: the brokers and topics, from this process's copy of the metadata.

It has two steps: `unknown_topics` names topics that the controller may create for the request, then `answer` answers.
The controller is never asked for an illegal name.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from kafkad.core.controller.image import NO_CONTROLLER, Topic
from kafkad.core.controller.topics.names import is_internal
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.topic_errors import is_legal, why_unknown
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
    if topics is None or not request.allow_auto_topic_creation or _asks_by_id(topics):
        return frozenset()
    if _is_invalid(topics, context.version):
        return frozenset()
    known = view.image.topics
    names = {topic.name for topic in topics if topic.name is not None and topic.name not in known}
    return frozenset(name for name in names if is_legal(name))


def answer(
    request: MetadataRequest, context: RequestContext, view: BrokerView, errors: Mapping[str, int] = _NO_ERRORS
) -> Steps:
    """The response body. `errors` has the codes of the topics that the controller tried to create."""
    image, cache, version = view.image, view.metadata_cache, context.version
    cache.follow(image, view.broker_id)
    if request.topics is None:
        asked = (version, *request[1:], *broker_rows(context, view))
        kept = cache.whole(asked)
        if kept is not None:
            return kept
        body = _pack(request, context, view, (yield from _packed(image.topics.values(), context, view)))
        cache.keep_whole(asked, image, body, version, context.connection.listener, view.broker_id)
        return body
    unknown_ids: list[bytes] = []
    if _is_invalid(request.topics, version):
        return _refuse(request.topics, version)
    elif _asks_by_id(request.topics):
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
    known: dict[str, Topic] = {}
    missing: dict[str, bytes] = {}
    topics_by_name = view.image.topics
    for number, wanted in enumerate(topics, 1):
        if number % ROWS_A_STEP == 0:
            yield Pause.TURN
        name = wanted.name
        assert name is not None
        topic = topics_by_name.get(name)
        if topic is not None:
            known[name] = topic
        elif name not in missing:
            error = _why_missing(name, errors)
            count_error(error)
            missing[name] = pack_topic(context.version, error, name, NO_TOPIC_ID, is_internal(name), ())
    found = yield from _packed(known.values(), context, view)
    return [*found, *missing.values()]


def _packed(topics: Iterable[Topic], context: RequestContext, view: BrokerView) -> Generator[Waits, Any, list[bytes]]:
    """The cost: cached topics cost next to nothing, the others as much as they have partitions."""
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
    """The unknown topics, and the others."""
    known: dict[bytes, Topic] = {}
    missing: dict[bytes, bytes] = {}
    image = view.image
    for number, (topic_id, _name) in enumerate(topics, 1):
        if number % ROWS_A_STEP == 0:
            yield Pause.TURN
        topic = image.topic_by_id(UUID(bytes=topic_id))
        if topic is not None:
            known[topic_id] = topic
        elif topic_id != NO_TOPIC_ID:
            count_error(ErrorCode.UNKNOWN_TOPIC_ID)
            missing[topic_id] = pack_topic(context.version, ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id, False, ())
    return list(missing.values()), (yield from _packed(known.values(), context, view))


def _why_missing(name: str, errors: Mapping[str, int]) -> int:
    error = errors.get(name)
    if error is None:
        return why_unknown(name)
    # Created, but deleted again or not known here yet: the client retries.
    return ErrorCode.LEADER_NOT_AVAILABLE if error == ErrorCode.NONE else error


def _asks_by_id(topics: Iterable[RequestedTopic]) -> bool:
    """If there is one id, names are ignored, as in Apache Kafka."""
    return any(topic.topic_id != NO_TOPIC_ID for topic in topics)


def _is_invalid(topics: Iterable[RequestedTopic], version: int) -> bool:
    """Versions 10 and 11 have a field for ids that must be null; later versions need a name or an id."""
    if version >= TOPIC_IDS_REQUESTED_FROM:
        return any(topic.name is None and topic.topic_id == NO_TOPIC_ID for topic in topics)
    return any(topic.name is None or topic.topic_id != NO_TOPIC_ID for topic in topics)


def _refuse(topics: Iterable[RequestedTopic], version: int) -> bytes:
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
