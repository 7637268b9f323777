"""The APIs about configurations: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafkad.core.controller.admin import alter_configs
from kafkad.core.controller.configs import Alteration, AlterEntry, AlterOperation, AlterResult, ResourceType
from kafkad.core.controller.image import MetadataImage
from kafkad.core.controller.topics.names import check_topic_name
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.quoting import quoted
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.requests.controller_view import ControllerView, DescribedOption, Response, ResponseAfter
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


def handle_describe_configs(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    """DescribeConfigs, versions 1 to 4: topics, this broker, the defaults of all brokers, and the broker's loggers."""
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
    broker_id = view.controller.settings.broker_id
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


APPLY_TIMEOUT_MS = 30_000
"""These requests have no timeout; clients wait for `request.timeout.ms`, 30 s by default."""


def handle_alter_configs(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    """AlterConfigs, versions 0 to 2: replaces the whole configuration of a resource (deprecated by KIP-339)."""
    messages = codec("alter_configs", context.version)
    request = messages.decode(body)
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            tuple(AlterEntry(each.name, AlterOperation.SET, each.value) for each in resource.configs),
        )
        for resource in request.resources
    ]
    results = alter_configs(
        view.controller,
        alterations,
        view.configs,
        incremental=False,
        validate_only=request.validate_only,
    )
    return _altered(messages, request, results, view)


def _altered(messages: Codec, request: Any, results: list[AlterResult], view: ControllerView) -> Response:
    """The response to AlterConfigs or IncrementalAlterConfigs, with the results in the order of the request."""
    body = messages.encode(
        responses=tuple(
            messages.part(
                "AlterConfigsResourceResponse",
                error_code=result.code,
                error_message=result.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, result in zip(request.resources, results, strict=True)
        )
    )
    if request.validate_only or all(result.code for result in results):
        return body
    return ResponseAfter(version=view.controller.image.version, body=body, timeout_ms=APPLY_TIMEOUT_MS)


def handle_incremental_alter_configs(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    """IncrementalAlterConfigs, versions 0 and 1 (KIP-339): set, delete, append to and subtract from single keys."""
    messages = codec("incremental_alter_configs", context.version)
    request = messages.decode(body)
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            tuple(AlterEntry(each.name, each.config_operation, each.value) for each in resource.configs),
        )
        for resource in request.resources
    ]
    results = alter_configs(
        view.controller,
        alterations,
        view.configs,
        incremental=True,
        validate_only=request.validate_only,
    )
    return _altered(messages, request, results, view)


def handle_list_config_resources(body: memoryview, context: RequestContext, view: ControllerView) -> Response:
    """ListConfigResources, versions 0 and 1 (KIP-1142): all resources that can have a configuration."""
    messages = codec("list_config_resources", context.version)
    request = messages.decode(body)
    requested = request.resource_types if context.version > 0 else (ResourceType.CLIENT_METRICS,)
    resource_types = {int(each) for each in ResourceType}
    if not resource_types.issuperset(requested):
        return messages.encode(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=())
    image = view.controller.image
    resources = tuple(
        messages.part("ConfigResource", resource_name=name, resource_type=int(resource_type))
        for resource_type in ResourceType
        if not requested or resource_type in requested
        for name in _resource_names(resource_type, image)
    )
    return messages.encode(error_code=ErrorCode.NONE, config_resources=resources)


def _resource_names(resource_type: ResourceType, image: MetadataImage) -> Iterable[str]:
    match resource_type:
        case ResourceType.TOPIC:
            return image.topics
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(broker) for broker in image.brokers]
        case ResourceType.GROUP:
            return [group_id for group_id, configs in image.group_configs.items() if configs]
        case ResourceType.CLIENT_METRICS:
            return ()
