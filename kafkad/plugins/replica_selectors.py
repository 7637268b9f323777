"""Preferred read replicas of consumers (KIP-392): the leader, or a replica in the same rack, named as in Kafka."""

from collections.abc import Sequence

from kafkad.api import BrokerId, ReplicaSelector, ReplicaView, TopicPartition, hookimpl


class LeaderSelector:
    """All consumers read from the leader."""

    name = "org.apache.kafka.common.replica.LeaderSelector"

    def select(self, partition: TopicPartition, rack_id: str, replicas: Sequence[ReplicaView]) -> BrokerId | None:
        return None


class RackAwareReplicaSelector:
    """Consumers read from a replica in their rack, if the leader is in another rack."""

    name = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

    def select(self, partition: TopicPartition, rack_id: str, replicas: Sequence[ReplicaView]) -> BrokerId | None:
        near = [each for each in replicas if rack_id and each.rack == rack_id]
        if not near or any(each.is_leader for each in near):
            return None
        return max(each.broker_id for each in near)


@hookimpl(trylast=True)
def kafkad_register_replica_selectors() -> Sequence[ReplicaSelector]:
    return [LeaderSelector(), RackAwareReplicaSelector()]
