"""AlterConfigs for a topic, a group or a broker, with Kafka's semantics.

`ConfigRules`, implemented by the tables of `kafkad.config`, defines the keys, the allowed values, and the keys that can
change while the broker runs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from kafkad.core.controller.topics.names import check_topic_name
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.quoting import quoted

MAX_VALUE_BYTES = 32_767


class ResourceType(IntEnum):
    """The numbers of the protocol (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class AlterEntry:
    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class Alteration:
    """The changes to one resource; `resource_type` is the number in the request, which may be invalid."""

    resource_type: int
    resource_name: str
    entries: tuple[AlterEntry, ...]


@dataclass(frozen=True, slots=True)
class AlterResult:
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class ConfigRules(Protocol):
    """The checks of configuration keys and values. A check that fails raises `KafkaError`."""

    def is_list(self, resource_type: ResourceType, key: str) -> bool:
        """Whether values may be appended and subtracted; False for unknown keys."""

    def default_value(self, resource_type: ResourceType, key: str) -> str | None:
        """The value of a key that the resource does not set: APPEND and SUBTRACT start from it."""

    def in_force(self, resource_type: ResourceType, stored: Mapping[str, str]) -> Mapping[str, str]:
        """The stored configs without keys of earlier versions that no longer apply; a change drops these keys."""

    def validate_topic(self, configs: Mapping[str, str]) -> None:
        """Raises INVALID_CONFIG for an unknown key, a value out of range, or contradicting values."""

    def validate_group(self, configs: Mapping[str, str]) -> None:
        """Raises INVALID_CONFIG for an unknown key or a value that the broker does not allow."""

    def validate_broker(self, configs: Mapping[str, str], *, per_broker: bool) -> None:
        """Raises INVALID_REQUEST for an invalid value, or a key that can't be changed dynamically (at this level)."""


def check_entries(alteration: Alteration) -> None:
    """Kafka's checks before those of values: duplicate keys, null values."""
    names = [entry.name for entry in alteration.entries]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    null = [e.name for e in alteration.entries if e.value is None and e.operation != AlterOperation.DELETE]
    if null:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {quoted(', '.join(null))}")


def check_resource(alteration: Alteration, broker_id: int) -> ResourceType:
    """The type of a resource with stored configurations. Raises KafkaError for any other resource."""
    name = alteration.resource_name
    match alteration.resource_type:
        case ResourceType.TOPIC:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
            check_topic_name(name)
            return ResourceType.TOPIC
        case ResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            return ResourceType.GROUP
        case ResourceType.BROKER:
            if name:
                check_node_id(name, broker_id)
            return ResourceType.BROKER
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {alteration.resource_type}")


def check_node_id(name: str, broker_id: int) -> None:
    """Raises KafkaError unless `name` is this broker's id: each broker alters its own configuration."""
    try:
        named = int(name)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {quoted(name)}") from None
    if named != broker_id:
        text = f"Unexpected broker id, expected {broker_id}, but received {quoted(name)}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def alter_incrementally(
    resource_type: ResourceType,
    current: Mapping[str, str],
    entries: Iterable[AlterEntry],
    rules: ConfigRules,
) -> dict[str, str]:
    """`current` after the operations of IncrementalAlterConfigs."""
    configs = dict(current)
    for entry in entries:
        match entry.operation:
            case AlterOperation.SET:
                configs[entry.name] = entry.value or ""
            case AlterOperation.DELETE:
                configs.pop(entry.name, None)
            case AlterOperation.APPEND | AlterOperation.SUBTRACT:
                configs[entry.name] = _alter_list(resource_type, configs, entry, rules)
            case _:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {entry.operation}")
    return configs


def replace_all(entries: Iterable[AlterEntry]) -> dict[str, str]:
    """The configuration after the legacy AlterConfigs: keys missing in the request return to their defaults."""
    return {entry.name: entry.value or "" for entry in entries}


def validate(resource_type: ResourceType, resource_name: str, configs: Mapping[str, str], rules: ConfigRules) -> None:
    for value in configs.values():
        if len(value.encode()) > MAX_VALUE_BYTES:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{MAX_VALUE_BYTES} bytes.",
            )
    if resource_type is ResourceType.TOPIC:
        rules.validate_topic(configs)
    elif resource_type is ResourceType.GROUP:
        rules.validate_group(configs)
    else:
        rules.validate_broker(configs, per_broker=bool(resource_name))


def _alter_list(resource_type: ResourceType, configs: Mapping[str, str], entry: AlterEntry, rules: ConfigRules) -> str:
    operation = AlterOperation(entry.operation)
    if not rules.is_list(resource_type, entry.name):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {quoted(entry.name)} because its type is not LIST.",
        )
    value = configs.get(entry.name)
    if value is None:
        value = rules.default_value(resource_type, entry.name) or ""
    items = [item for item in value.split(",") if item]
    for item in (entry.value or "").split(","):
        if operation is AlterOperation.SUBTRACT:
            items = [kept for kept in items if kept != item]
        elif item not in items:
            items.append(item)
    return ",".join(items)
