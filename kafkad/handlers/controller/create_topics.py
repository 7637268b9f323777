"""CreateTopics, versions 2 to 7: the response describes the new topic from version 5 on, with its id from 7 on."""

from typing import Any

from kafkad.core.controller.admin import create_topics
from kafkad.core.controller.image import Topic
from kafkad.core.controller.topics.topics import NewTopic, TopicResult
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.core.types import NO_TOPIC_ID
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response, ResponseAfter
from kafkad.wire.kio_codec import Codec, codec, kio_id, milliseconds


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
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
    response = messages.encode(topics=tuple(_result(messages, result, described) for result in results))
    if request.validate_only or all(result.code for result in results):
        return response
    return ResponseAfter(body=response, timeout_ms=milliseconds(request.timeout))


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
            self._cache[key] = _configs(self._messages, topic, self._view)
        return self._cache[key]


def _result(messages: Codec, result: TopicResult, described: _DescribedConfigs | None) -> Any:
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


def _configs(messages: Codec, topic: Topic, view: ControllerView) -> tuple[Any, ...]:
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
