"""Checks that this broker may serve a partition, and finds the slot that its owner has published.

All APIs use these checks, in Apache Kafka's order: the partition exists, its log can be read, the client has the
current leader epoch, this broker is the leader.
"""

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.partition_slot import ROLE_LEADER, STATE_OFFLINE, STATE_ONLINE, PartitionSlot
from kafkad.handlers.requests.broker_view import BrokerView

ANY_EPOCH = -1


def find_slot(view: BrokerView, topic: str, partition: int) -> tuple[int, PartitionSlot]:
    """The slot's number and content. Raises KafkaError when the partition has no readable log here."""
    route = view.routing.find(topic)
    if route is None or not 0 <= partition < len(route.slots):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    slot = route.slots[partition]
    if slot < 0:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    published = view.slots.read(slot)
    if published.topic_id != route.topic_id:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if published.state == STATE_OFFLINE:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    if published.state != STATE_ONLINE:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return slot, published


def find_leader(
    view: BrokerView,
    topic: str,
    partition: int,
    current_leader_epoch: int = ANY_EPOCH,
    *,
    require_leader: bool = True,
) -> tuple[int, PartitionSlot]:
    """As `find_slot`; also raises KafkaError unless this broker leads the partition in the client's leader epoch."""
    slot, published = find_slot(view, topic, partition)
    if current_leader_epoch != ANY_EPOCH:
        if current_leader_epoch < published.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        if current_leader_epoch > published.leader_epoch:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
    if require_leader and published.role != ROLE_LEADER:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return slot, published
