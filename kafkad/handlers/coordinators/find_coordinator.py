"""FindCoordinator, versions 0 to 6: the broker with the coordinator of a group or transactional id.

Two steps, like Metadata: `required_topics` names the internal topic that the controller has to create first,
`response` makes the response. Share groups are rejected, as by Apache Kafka without a share coordinator.
"""

from collections.abc import Mapping
from enum import IntEnum

from kafkad.core.controller.image import NO_LEADER
from kafkad.core.controller.topics.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.requests.broker_rows import broker_rows
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.steps import Pause, Steps
from kafkad.wire.messages.find_coordinator import (
    BATCHED_FROM,
    FindCoordinatorRequest,
    FoundCoordinator,
    pack_batched,
    pack_rows,
    pack_single,
)
from kafkad.wire.steps import STEP


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_TOPICS = {KeyType.GROUP: GROUP_METADATA_TOPIC, KeyType.TRANSACTION: TRANSACTION_STATE_TOPIC}
_MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent "
        "to an incompatible broker. See the broker logs for more details."
    ),
}
"""Apache Kafka's messages: for the error codes of versions with one key, and for an unknown key type."""


def required_topics(request: FindCoordinatorRequest, view: BrokerView) -> frozenset[str]:
    """The internal topic that must exist before the response is made."""
    topic = _TOPICS.get(KeyType(request.key_type)) if request.key_type in _TOPICS else None
    return frozenset() if topic is None or topic in view.image.topics else frozenset({topic})


def response(request: FindCoordinatorRequest, context: RequestContext, view: BrokerView) -> Steps:
    """The steps that make the response body. The reason of a failed topic creation is not sent to clients."""
    nodes = {broker_id: (broker_id, host, port) for broker_id, host, port, _rack in broker_rows(context, view)}
    key_type, keys = request
    version = context.version
    if version < BATCHED_FROM:
        found = _find(key_type, keys[0], view, nodes)
        return pack_single(version, found._replace(message=_MESSAGES[ErrorCode(found.error)]))
    packed = []
    for first in range(0, len(keys), STEP):
        if first:
            yield Pause.TURN
        packed.append(pack_rows(_find(key_type, key, view, nodes) for key in keys[first : first + STEP]))
    return pack_batched(len(keys), packed)


def _find(key_type: int, key: str, view: BrokerView, nodes: Mapping[int, tuple[int, str, int]]) -> FoundCoordinator:
    if key_type == KeyType.SHARE:
        return FoundCoordinator(key, ErrorCode.INVALID_REQUEST)
    if key_type not in _TOPICS:
        return FoundCoordinator(key, ErrorCode.INVALID_REQUEST, message=_MESSAGES[ErrorCode.INVALID_REQUEST])
    topic = view.image.topics.get(_TOPICS[KeyType(key_type)])
    if topic is None:
        return FoundCoordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
    if leader == NO_LEADER or leader not in nodes:
        return FoundCoordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return FoundCoordinator(key, ErrorCode.NONE, nodes[leader])
