"""CreateTopics 4 as a client: a broker requests the creation of topics from the controller for its clients."""

from dataclasses import dataclass

from kafkad.core.errors import ErrorCode
from kafkad.wire.cluster.schema import (
    Field,
    Message,
    array_of,
    boolean,
    constant,
    error_code,
    int16,
    int32,
    nullable_string,
    string,
    struct_of,
)

TopicError = tuple[ErrorCode, str | None]
"""The error code and message of one topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToCreate:
    """-1 is the controller's default."""

    name: str
    num_partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsToCreate:
    topics: tuple[TopicToCreate, ...]


def _config(*, name: str, value: str | None) -> tuple[str, str]:
    return name, value or ""


def _result(*, name: str, error_code: ErrorCode, error_message: str | None) -> tuple[str, TopicError]:
    return name, (error_code, error_message)


def _results(*, topics: tuple[tuple[str, TopicError], ...]) -> dict[str, TopicError]:
    return dict(topics)


_CONFIG = (
    Field("name", string, value=lambda pair: pair[0]),
    Field("value", nullable_string, value=lambda pair: pair[1]),
)
_TOPIC = (
    Field("name", string),
    Field("num_partitions", int32),
    Field("replication_factor", int16),
    constant("assignments", array_of(int32), ()),
    Field("configs", array_of(struct_of(_config, _CONFIG))),
)
_RESULT = (Field("name", string), Field("error_code", error_code), Field("error_message", nullable_string))

CREATE_TOPICS_4: Message[TopicsToCreate, dict[str, TopicError]] = Message(
    name="CreateTopics",
    newest=4,
    flexible_from=5,
    request=struct_of(
        TopicsToCreate,
        (
            Field("topics", array_of(struct_of(TopicToCreate, _TOPIC))),
            constant("timeout_ms", int32, 30_000),
            constant("validate_only", boolean, False),
        ),
    ),
    response=struct_of(
        _results,
        (
            constant("throttle_time_ms", int32, 0),
            Field("topics", array_of(struct_of(_result, _RESULT))),
        ),
    ),
)
