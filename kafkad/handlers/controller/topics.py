"""CreateTopics, CreatePartitions and DeleteTopics."""

from typing import Any

from kafkad.core.controller.admin import create_partitions, create_topics
from kafkad.core.controller.image import Topic
from kafkad.core.controller.topics.deletion import DeletedTopic, TopicToDelete, delete_topics
from kafkad.core.controller.topics.topics import NewPartitions, NewTopic, TopicResult
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.core.types import NO_TOPIC_ID
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response, ResponseAfter
from kafkad.wire.kio_codec import Codec, codec, kio_id, milliseconds


def handle_create_topics(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    """CreateTopics, versions 2 to 7: the response describes the new topic from version 5 on, with its id from 7 on."""
    messages = codec("create_topics", context.version)
    request = messages.decode(body)
    results = create_topics(
        view.controller,
        [new_topic(topic) for topic in request.topics],
        view.configs,
        view.random_source,
        validate_only=request.validate_only,
    )
    described = _DescribedConfigs(messages, view) if context.version >= 5 else None
    response = messages.encode(topics=tuple(_created(messages, result, described) for result in results))
    if request.validate_only or all(result.code for result in results):
        return response
    return ResponseAfter(version=view.controller.image.version, body=response, timeout_ms=milliseconds(request.timeout))


def new_topic(topic: Any) -> NewTopic:
    """A topic of the request."""
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple((each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
        configs=tuple((config.name, config.value) for config in topic.configs),
    )


class _DescribedConfigs:
    """The configs of new topics; equal configs are described once, because one request may create thousands."""

    def __init__(self, messages: Codec, view: ControllerView) -> None:
        self._messages = messages
        self._view = view
        self._cache: dict[tuple[tuple[str, str], ...], tuple[Any, ...]] = {}

    def of(self, topic: Topic) -> tuple[Any, ...]:
        key = tuple(topic.configs.items())
        if key not in self._cache:
            self._cache[key] = _described(self._messages, topic, self._view)
        return self._cache[key]


def _created(messages: Codec, result: TopicResult, described: _DescribedConfigs | None) -> Any:
    topic = result.topic
    return messages.part(
        "CreatableTopicResult",
        name=result.name,
        topic_id=kio_id(topic.id if topic else NO_TOPIC_ID),
        error_code=result.code,
        error_message=result.message,
        topic_config_error_code=int(ErrorCode.NONE),
        num_partitions=len(topic.partitions) if topic else -1,
        replication_factor=len(topic.partitions[0].replicas) if topic else -1,
        configs=described.of(topic) if topic and described else (),
    )


def _described(messages: Codec, topic: Topic, view: ControllerView) -> tuple[Any, ...]:
    described = sorted(view.configs.describe_topic(topic.configs), key=lambda option: option.name)
    return tuple(
        messages.part(
            "CreatableTopicConfigs",
            name=option.name,
            value=option.value,
            read_only=option.read_only,
            config_source=int(option.source),
            is_sensitive=option.is_sensitive,
        )
        for option in described
    )


def handle_create_partitions(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    """CreatePartitions, versions 0 to 3: increases the partition counts of topics."""
    messages = codec("create_partitions", context.version)
    request = messages.decode(body)
    results = create_partitions(
        view.controller,
        [new_partitions(topic) for topic in request.topics],
        validate_only=request.validate_only,
    )
    response = messages.encode(
        results=tuple(
            messages.part(
                "CreatePartitionsTopicResult",
                name=result.name,
                error_code=result.code,
                error_message=result.message,
            )
            for result in results
        )
    )
    if request.validate_only or all(result.code for result in results):
        return response
    return ResponseAfter(version=view.controller.image.version, body=response, timeout_ms=milliseconds(request.timeout))


def new_partitions(topic: Any) -> NewPartitions:
    """A topic of the request."""
    assignments = None
    if topic.assignments is not None:
        assignments = tuple(tuple(each.broker_ids) for each in topic.assignments)
    return NewPartitions(name=topic.name, count=topic.count, assignments=assignments)


_BY_ID_FROM = 6


def handle_delete_topics(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    """DeleteTopics, versions 1 to 6: by name, from version 6 on also by id.

    The response is sent when the partitions' directories are deleted, or at the client's timeout; the deletion then
    continues in the background.
    """
    messages = codec("delete_topics", context.version)
    request = messages.decode(body)
    if context.version >= _BY_ID_FROM:
        entries = [TopicToDelete(each.name, each.topic_id or NO_TOPIC_ID) for each in request.topics]
    else:
        entries = [TopicToDelete(name) for name in request.topic_names]
    results = delete_topics(view.controller, entries, version=context.version)
    response = messages.encode(
        responses=tuple(
            messages.part(
                "DeletableTopicResult",
                name=result.name,
                topic_id=kio_id(result.id),
                error_code=result.code,
                error_message=result.message,
            )
            for result in results
        )
    )
    deleted = tuple(_deleted_names(results))
    if not deleted:
        return response
    return ResponseAfter(
        version=view.controller.image.version,
        body=response,
        timeout_ms=milliseconds(request.timeout),
        deleted=deleted,
    )


def _deleted_names(results: list[DeletedTopic]) -> list[str]:
    return [each.name for each in results if each.code is ErrorCode.NONE and each.name is not None]
