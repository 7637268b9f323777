"""DescribeConfigs, versions 1 to 4: topics, this broker, the defaults of all brokers, and the broker's loggers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafkad.core.controller.configs import ResourceType
from kafkad.core.controller.topics.names import check_topic_name
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.quoting import quoted
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.controller_view import ControllerView, DescribedOption, Response
from kafkad.handlers.controller.requests.pieces import distinct
from kafkad.wire.kio_codec import Codec, codec

_DYNAMIC_BROKER_LOGGER_SOURCE = 6
_UNKNOWN_TYPE = 0


@dataclass(frozen=True, slots=True)
class _Logger:
    """A logger as a configuration option, without default, synonyms and documentation."""

    name: str
    value: str | None
    source: int = _DYNAMIC_BROKER_LOGGER_SOURCE
    is_sensitive: bool = False
    read_only: bool = False
    config_type: int = _UNKNOWN_TYPE
    documentation: str = ""
    synonyms: tuple[tuple[str, str | None, int], ...] = ()


def handle(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    messages = codec("describe_configs", context.version)
    request = messages.decode(body)
    documented = getattr(request, "include_documentation", False)
    results = []
    for resource in distinct(request.resources):
        keys = frozenset(resource.configuration_keys or ())
        code, message = ErrorCode.NONE, ""
        options: tuple[Any, ...] = ()
        try:
            options = tuple(
                _option(messages, option, request.include_synonyms, documented)
                for option in _described(resource.resource_type, resource.resource_name, view)
                if not keys or option.name in keys
            )
        except KafkaError as error:
            code, message = error.code, error.message or ""  # never null, as in Apache Kafka
        results.append(
            messages.part(
                "DescribeConfigsResult",
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=options,
            )
        )
    return messages.encode(results=tuple(results))


def _described(resource_type: int, name: str, view: ControllerView) -> Iterable[DescribedOption]:
    broker_id = view.controller.id
    match resource_type:
        case ResourceType.TOPIC:
            check_topic_name(name)
            topic = view.controller.image.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return view.configs.describe_topic(topic.configs)
        case ResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return view.configs.describe_group(view.controller.image.group_configs.get(name, {}))
        case ResourceType.BROKER:
            if not name:
                return view.configs.describe_cluster_default()
            if _broker_id(name) != broker_id:
                text = f"Unexpected broker id, expected {broker_id} or empty string, but received {quoted(name)}"
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)
            return view.configs.describe_broker()
        case ResourceType.BROKER_LOGGER:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            if _broker_id(name) != broker_id:
                text = f"Unexpected broker id, expected {broker_id} but received {quoted(name)}"
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)
            return [_Logger(logger, level) for logger, level in sorted(view.loggers.items())]
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {_type_name(resource_type)}")


def _broker_id(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        text = f"Broker id must be an integer, but it is: {quoted(name)}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text) from None


def _type_name(resource_type: int) -> str:
    is_valid = resource_type in ResourceType.__members__.values()
    return ResourceType(resource_type).name if is_valid else "UNKNOWN"


def _option(messages: Codec, option: DescribedOption, with_synonyms: bool, documented: bool) -> Any:
    synonyms = option.synonyms if with_synonyms else ()
    return messages.part(
        "DescribeConfigsResourceResult",
        name=option.name,
        value=option.value,
        read_only=option.read_only,
        config_source=int(option.source),
        is_sensitive=option.is_sensitive,
        synonyms=tuple(
            messages.part("DescribeConfigsSynonym", name=name, value=value, source=int(source))
            for name, value, source in synonyms
        ),
        config_type=option.config_type,
        documentation=option.documentation if documented else None,
    )
