"""The response with one error for everything in a request to the controller."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkad.core.errors import ErrorCode
from kafkad.core.types import NO_TOPIC_ID
from kafkad.wire import api_table
from kafkad.wire.kio_codec import Codec, codec, kio_id

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rejection:
    """`text` is the error message, in versions with that field."""

    code: ErrorCode
    text: str


UNENCODABLE = Rejection(
    ErrorCode.UNKNOWN_SERVER_ERROR,
    "The request was completed, but its response can't be encoded in this version.",
)
"""All parts of the request get this error, also the failed ones, because the real response can't be sent."""
FAILED = Rejection(ErrorCode.UNKNOWN_SERVER_ERROR, "The request failed because of a bug, see the broker's log.")


def error_response(api_key: int, version: int, body: memoryview, rejection: Rejection) -> bytes:
    """The response body. All strings come from the request, so they can be encoded. Raises MalformedRequest."""
    name, fields = APIS[api_key]
    messages = codec(name, version)
    return messages.encode(**fields(messages, messages.decode(body), rejection))


def _rows(messages: Codec, rejection: Rejection, part: str, rows: Iterable[Fields]) -> tuple[Any, ...]:
    code, text = rejection.code, rejection.text
    return tuple(messages.part(part, error_code=code, error_message=text, **row) for row in rows)


def _create_topics(messages: Codec, request: Any, rejection: Rejection) -> Fields:
    empty = {"topic_id": kio_id(NO_TOPIC_ID), "topic_config_error_code": 0, "num_partitions": -1,
             "replication_factor": -1, "configs": ()}  # fmt: skip
    rows = ({"name": topic.name, **empty} for topic in request.topics)
    return {"topics": _rows(messages, rejection, "CreatableTopicResult", rows)}


def _delete_topics(messages: Codec, request: Any, rejection: Rejection) -> Fields:
    if hasattr(request, "topics"):
        rows = [{"name": each.name, "topic_id": each.topic_id} for each in request.topics]
    else:
        rows = [{"name": name, "topic_id": kio_id(NO_TOPIC_ID)} for name in request.topic_names]
    return {"responses": _rows(messages, rejection, "DeletableTopicResult", rows)}


def _create_partitions(messages: Codec, request: Any, rejection: Rejection) -> Fields:
    rows = ({"name": topic.name} for topic in request.topics)
    return {"results": _rows(messages, rejection, "CreatePartitionsTopicResult", rows)}


def _alter_replica_log_dirs(messages: Codec, request: Any, rejection: Rejection) -> Fields:
    partitions: dict[str, dict[int, None]] = {}
    for row in (topic for directory in request.dirs for topic in directory.topics):
        partitions.setdefault(row.name, {}).update(dict.fromkeys(row.partitions))
    topics = (
        messages.part(
            "AlterReplicaLogDirTopicResult",
            topic_name=name,
            partitions=_rows(
                messages, rejection, "AlterReplicaLogDirPartitionResult", ({"partition_index": index} for index in rows)
            ),
        )
        for name, rows in partitions.items()
    )
    return {"results": tuple(topics)}


def _resources(request: Any) -> Iterable[Fields]:
    for each in request.resources:
        yield {"resource_type": each.resource_type, "resource_name": each.resource_name}


def _describe_configs(messages: Codec, request: Any, rejection: Rejection) -> Fields:
    rows = ({**row, "configs": ()} for row in _resources(request))
    return {"results": _rows(messages, rejection, "DescribeConfigsResult", rows)}


def _alter_configs(messages: Codec, request: Any, rejection: Rejection) -> Fields:
    return {"responses": _rows(messages, rejection, "AlterConfigsResourceResponse", _resources(request))}


def _elect_leaders(messages: Codec, request: Any, rejection: Rejection) -> Fields:
    rows = tuple(
        messages.part(
            "ReplicaElectionResult",
            topic=topic.topic,
            partition_result=_rows(
                messages, rejection, "PartitionResult", ({"partition_id": each} for each in topic.partitions)
            ),
        )
        for topic in request.topic_partitions or ()
    )
    return {"error_code": rejection.code, "replica_election_results": rows}


APIS: dict[int, tuple[str, Callable[[Codec, Any, Rejection], Fields]]] = {
    api_table.CREATE_TOPICS: ("create_topics", _create_topics),
    api_table.DELETE_TOPICS: ("delete_topics", _delete_topics),
    api_table.CREATE_PARTITIONS: ("create_partitions", _create_partitions),
    api_table.ALTER_REPLICA_LOG_DIRS: ("alter_replica_log_dirs", _alter_replica_log_dirs),
    api_table.DESCRIBE_CONFIGS: ("describe_configs", _describe_configs),
    api_table.ELECT_LEADERS: ("elect_leaders", _elect_leaders),
    api_table.ALTER_CONFIGS: ("alter_configs", _alter_configs),
    api_table.INCREMENTAL_ALTER_CONFIGS: ("incremental_alter_configs", _alter_configs),
    api_table.INIT_PRODUCER_ID: (
        "init_producer_id",
        lambda _messages, _request, rejection: {"error_code": rejection.code, "producer_id": -1, "producer_epoch": -1},
    ),
    api_table.LIST_CONFIG_RESOURCES: (
        "list_config_resources",
        lambda _messages, _request, rejection: {"error_code": rejection.code, "config_resources": ()},
    ),
    api_table.ALTER_PARTITION_REASSIGNMENTS: (
        "alter_partition_reassignments",
        lambda _messages, _request, rejection: {
            "error_code": rejection.code,
            "error_message": rejection.text,
            "responses": (),
            "allow_replication_factor_change": True,
        },
    ),
    api_table.LIST_PARTITION_REASSIGNMENTS: (
        "list_partition_reassignments",
        lambda _messages, _request, rejection: {
            "error_code": rejection.code,
            "error_message": rejection.text,
            "topics": (),
        },
    ),
    api_table.UPDATE_FEATURES: (
        "update_features",
        lambda _messages, _request, rejection: {
            "error_code": rejection.code,
            "error_message": rejection.text,
            "results": (),
        },
    ),
}
