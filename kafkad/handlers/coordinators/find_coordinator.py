"""FindCoordinator, versions 0 to 6: which broker is responsible for a group or a transactional id.

In two steps, like Metadata: `wanted_topics` names the internal topic that has to be made first, which the
controller does before `handle` answers. Share groups are not served, and are refused as Apache Kafka does without
a share coordinator.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from kafkad.core.controller.image import NO_LEADER
from kafkad.core.controller.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.requests.broker_rows import broker_rows
from kafkad.handlers.requests.view import BrokerView
from kafkad.wire.kio_codec import Codec, codec

BATCHED_FROM = 4
_NO_ERRORS: Mapping[str, int] = {}


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class _Found(NamedTuple):
    key: str
    error: ErrorCode
    node: tuple[int, str, int] = (-1, "", -1)
    message: str = ""
    """What versions with many keys say beside the code."""


_TOPICS = {KeyType.GROUP: GROUP_METADATA_TOPIC, KeyType.TRANSACTION: TRANSACTION_STATE_TOPIC}
_MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent "
        "to an incompatible broker. See the broker logs for more details."
    ),
}
"""What the first versions say beside the code, and the later ones of an unknown key type, in Apache Kafka's words."""


def wanted_topics(body: memoryview, context: RequestContext, view: BrokerView) -> frozenset[str]:
    """The internal topic that is to be made before there can be an answer. Raises MalformedRequest."""
    key_type, _keys = _read(codec("find_coordinator", context.version), body, context.version)
    topic = _TOPICS.get(key_type)
    return frozenset() if topic is None or topic in view.image.topics else frozenset({topic})


def handle(
    body: memoryview, context: RequestContext, view: BrokerView, errors: Mapping[str, int] = _NO_ERRORS
) -> bytes:
    """The response body. Raises MalformedRequest. Why a topic could not be made (`errors`) clients are not told."""
    version = context.version
    messages = codec("find_coordinator", version)
    key_type, keys = _read(messages, body, version)
    nodes = {broker_id: (broker_id, host, port) for broker_id, host, port, _rack in broker_rows(context, view)}
    found = [_find(key_type, key, view, nodes) for key in keys]
    if version < BATCHED_FROM:
        return _encode_single(messages, found[0])
    rows = (
        messages.part(
            "Coordinator",
            key=row.key,
            node_id=row.node[0],
            host=row.node[1],
            port=row.node[2],
            error_code=row.error,
            error_message=row.message,
        )
        for row in found
    )
    return messages.encode(coordinators=tuple(rows))


def _read(messages: Codec, body: memoryview, version: int) -> tuple[Any, list[str]]:
    request = messages.decode(body)
    key_type = int(getattr(request, "key_type", KeyType.GROUP))
    return key_type, list(request.coordinator_keys) if version >= BATCHED_FROM else [request.key]


def _find(key_type: int, key: str, view: BrokerView, nodes: Mapping[int, tuple[int, str, int]]) -> _Found:
    if key_type == KeyType.SHARE:
        return _Found(key, ErrorCode.INVALID_REQUEST)
    if key_type not in _TOPICS:
        return _Found(key, ErrorCode.INVALID_REQUEST, message=_MESSAGES[ErrorCode.INVALID_REQUEST])
    topic = view.image.topics.get(_TOPICS[KeyType(key_type)])
    if topic is None:
        return _Found(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
    if leader == NO_LEADER or leader not in nodes:
        return _Found(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return _Found(key, ErrorCode.NONE, nodes[leader])


def _encode_single(messages: Codec, found: _Found) -> bytes:
    node_id, host, port = found.node
    return messages.encode(
        error_code=found.error, error_message=_MESSAGES[found.error], node_id=node_id, host=host, port=port
    )
