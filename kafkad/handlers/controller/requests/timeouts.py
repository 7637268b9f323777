"""How long does a client wait for a controller, and which answer does it get when none took its request in that time?

REQUEST_TIMED_OUT for everything in the request, of which nothing was done: as Apache Kafka answers requests that it
could not forward. Network processes use this only while there is no controller.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafkad.core.errors import ErrorCode
from kafkad.core.types import NO_TOPIC_ID
from kafkad.wire import api_table
from kafkad.wire.kio_codec import Codec, codec, kio_id, milliseconds

LONGEST_MS = 60_000
"""Also for requests without a timeout of their own."""
_CODE = ErrorCode.REQUEST_TIMED_OUT
_TEXT = "No controller took the request in time."

Fields = Mapping[str, Any]


def is_between_brokers(api_key: int) -> bool:
    """Another broker's request, which is not answered but sent again on another connection."""
    return api_key in api_table.CLUSTER_APIS


def patience_ms(api_key: int, version: int, body: memoryview) -> int:
    """Raises MalformedRequest."""
    if is_between_brokers(api_key):
        return LONGEST_MS
    timeout = getattr(codec(_APIS[api_key][0], version).decode(body), "timeout", None)
    return LONGEST_MS if timeout is None else max(0, min(milliseconds(timeout), LONGEST_MS))


def timed_out(api_key: int, version: int, body: memoryview) -> bytes:
    """The response body. Raises MalformedRequest."""
    name, fields = _APIS[api_key]
    messages = codec(name, version)
    return messages.encode(**fields(messages, messages.decode(body)))


def _rows(messages: Codec, part: str, rows: Iterable[Fields]) -> tuple[Any, ...]:
    return tuple(messages.part(part, error_code=_CODE, error_message=_TEXT, **row) for row in rows)


def _create_topics(messages: Codec, request: Any) -> Fields:
    nothing = {"topic_id": kio_id(NO_TOPIC_ID), "topic_config_error_code": 0, "num_partitions": -1,
               "replication_factor": -1, "configs": ()}  # fmt: skip
    rows = ({"name": topic.name, **nothing} for topic in request.topics)
    return {"topics": _rows(messages, "CreatableTopicResult", rows)}


def _delete_topics(messages: Codec, request: Any) -> Fields:
    if hasattr(request, "topics"):
        rows = [{"name": each.name, "topic_id": each.topic_id} for each in request.topics]
    else:
        rows = [{"name": name, "topic_id": kio_id(NO_TOPIC_ID)} for name in request.topic_names]
    return {"responses": _rows(messages, "DeletableTopicResult", rows)}


def _create_partitions(messages: Codec, request: Any) -> Fields:
    rows = ({"name": topic.name} for topic in request.topics)
    return {"results": _rows(messages, "CreatePartitionsTopicResult", rows)}


def _alter_replica_log_dirs(messages: Codec, request: Any) -> Fields:
    partitions: dict[str, dict[int, None]] = {}
    for row in (topic for directory in request.dirs for topic in directory.topics):
        partitions.setdefault(row.name, {}).update(dict.fromkeys(row.partitions))
    topics = (
        messages.part(
            "AlterReplicaLogDirTopicResult",
            topic_name=name,
            partitions=_rows(
                messages, "AlterReplicaLogDirPartitionResult", ({"partition_index": index} for index in rows)
            ),
        )
        for name, rows in partitions.items()
    )
    return {"results": tuple(topics)}


def _resources(request: Any) -> Iterable[Fields]:
    for each in request.resources:
        yield {"resource_type": each.resource_type, "resource_name": each.resource_name}


def _describe_configs(messages: Codec, request: Any) -> Fields:
    rows = ({**row, "configs": ()} for row in _resources(request))
    return {"results": _rows(messages, "DescribeConfigsResult", rows)}


def _alter_configs(messages: Codec, request: Any) -> Fields:
    return {"responses": _rows(messages, "AlterConfigsResourceResponse", _resources(request))}


def _elect_leaders(messages: Codec, request: Any) -> Fields:
    rows = tuple(
        messages.part(
            "ReplicaElectionResult",
            topic=topic.topic,
            partition_result=_rows(messages, "PartitionResult", ({"partition_id": each} for each in topic.partitions)),
        )
        for topic in request.topic_partitions or ()
    )
    return {"error_code": _CODE, "replica_election_results": rows}


_APIS: dict[int, tuple[str, Callable[[Codec, Any], Fields]]] = {
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
        lambda *_: {"error_code": _CODE, "producer_id": -1, "producer_epoch": -1},
    ),
    api_table.LIST_CONFIG_RESOURCES: (
        "list_config_resources",
        lambda *_: {"error_code": _CODE, "config_resources": ()},
    ),
    api_table.ALTER_PARTITION_REASSIGNMENTS: (
        "alter_partition_reassignments",
        lambda *_: {
            "error_code": _CODE,
            "error_message": _TEXT,
            "responses": (),
            "allow_replication_factor_change": True,
        },
    ),
    api_table.LIST_PARTITION_REASSIGNMENTS: (
        "list_partition_reassignments",
        lambda *_: {"error_code": _CODE, "error_message": _TEXT, "topics": ()},
    ),
    api_table.UPDATE_FEATURES: (
        "update_features",
        lambda *_: {"error_code": _CODE, "error_message": _TEXT, "results": ()},
    ),
}
