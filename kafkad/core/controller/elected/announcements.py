"""Builds the requests of the controller to brokers: LeaderAndIsr, UpdateMetadata, StopReplica.

As from Apache Kafka's controller, replicas get their roles first, then every registered broker gets the metadata.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafkad.core.cluster.control_requests import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    LiveBroker,
    LiveEndpoint,
    LiveLeader,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
)
from kafkad.core.controller.image import Broker, Partition, Topic
from kafkad.core.errors import ErrorCode
from kafkad.core.types import TopicPartition

Request = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
Rows = Sequence[tuple[Topic, Sequence[Partition]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcer:
    """Builds the requests of one term. `listener` is the name of the inter-broker listener.

    All registered `brokers` get requests, and UpdateMetadata names all of them. `unreachable` brokers don't lead: their
    hosts refuse connections, but their sessions live.
    `offline` are replicas whose log directory is offline or full.
    """

    controller_id: int
    controller_epoch: int
    listener: str
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    unreachable: frozenset[int] = frozenset()
    offline: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)

    @property
    def live(self) -> dict[int, Broker]:
        return {each: broker for each, broker in self.brokers.items() if each not in self.unreachable}

    def roles(self, rows: Rows, *, is_new: bool, only: Iterable[int] | None = None) -> list[tuple[int, Request]]:
        """LeaderAndIsr of the partitions to their replicas (`only` to these brokers)."""
        to = self.brokers.keys() if only is None else self.brokers.keys() & set(only)
        return [(broker, request) for broker in sorted(to) if (request := self._roles_of(broker, rows, is_new))]

    def _roles_of(self, broker: int, rows: Rows, is_new: bool) -> LeaderAndIsrRequest | None:
        topics = []
        leaders: set[int] = set()
        for topic, partitions in rows:
            # An empty ISR means that the state can't be read: such a partition gets no roles.
            mine = [row for row in partitions if broker in row.replicas and row.isr]
            if mine:
                leaders |= {row.leader for row in mine}
                states = tuple(self._role(broker, row, is_new) for row in mine)
                topics.append(LeaderAndIsrTopic(topic_name=topic.name, topic_id=topic.id, partition_states=states))
        if not topics:
            return None
        return LeaderAndIsrRequest(
            controller_id=self.controller_id,
            controller_epoch=self.controller_epoch,
            broker_epoch=self.brokers[broker].epoch,
            topic_states=tuple(topics),
            live_leaders=tuple(self._live_leader(each) for each in sorted(leaders.intersection(self.live))),
        )

    def _role(self, broker: int, row: Partition, is_new: bool) -> LeaderAndIsrPartition:
        # A replica that is being added has no records: as a new one it may be created although a directory is offline.
        is_added = broker in row.adding and broker not in row.isr
        return LeaderAndIsrPartition(
            partition_index=row.index,
            controller_epoch=self.controller_epoch,
            leader=row.leader,
            leader_epoch=row.leader_epoch,
            isr=row.isr,
            partition_epoch=row.partition_epoch,
            replicas=row.replicas,
            adding_replicas=row.adding,
            removing_replicas=row.removing,
            is_new=is_new or is_added,
            leader_recovery_state=row.leader_recovery_state,
        )

    def _live_leader(self, broker_id: int) -> LiveLeader:
        listeners = self.brokers[broker_id].listeners
        found = next((each for each in listeners if each.name == self.listener), listeners[0])
        return LiveLeader(broker_id=broker_id, host_name=found.host, port=found.port)

    def metadata(self, rows: Rows, only: Iterable[int] | None = None) -> list[tuple[int, Request]]:
        """UpdateMetadata with all registered brokers and these partitions, to every broker (`only` to these)."""
        states = tuple(
            UpdateMetadataTopic(
                topic_name=topic.name,
                topic_id=topic.id,
                partition_states=tuple(self._state(topic, row) for row in partitions),
            )
            for topic, partitions in rows
        )
        return self._updates(states, only)

    def deleted(self, topics: Iterable[Topic], only: Iterable[int] | None = None) -> list[tuple[int, Request]]:
        """UpdateMetadata that removes the topics from every broker's metadata (`only` from these)."""
        states = tuple(
            UpdateMetadataTopic(
                topic_name=topic.name,
                topic_id=topic.id,
                partition_states=tuple(
                    self._state(topic, row, leader=LEADER_DURING_DELETE, leader_epoch=0) for row in topic.partitions
                ),
            )
            for topic in topics
        )
        return self._updates(states, only)

    def _updates(
        self, states: tuple[UpdateMetadataTopic, ...], only: Iterable[int] | None
    ) -> list[tuple[int, Request]]:
        registered = tuple(_live(broker) for _, broker in sorted(self.brokers.items()))
        to = self.brokers.keys() if only is None else self.brokers.keys() & set(only)
        return [
            (
                broker,
                UpdateMetadataRequest(
                    controller_id=self.controller_id,
                    controller_epoch=self.controller_epoch,
                    broker_epoch=self.brokers[broker].epoch,
                    topic_states=states,
                    live_brokers=registered,
                ),
            )
            for broker in sorted(to)
        ]

    def _state(
        self,
        topic: Topic,
        row: Partition,
        leader: int | None = None,
        leader_epoch: int | None = None,
    ) -> UpdateMetadataPartition:
        offline = self.offline.get(TopicPartition(topic.name, row.index), ())
        return UpdateMetadataPartition(
            partition_index=row.index,
            controller_epoch=self.controller_epoch,
            leader=row.leader if leader is None else leader,
            leader_epoch=row.leader_epoch if leader_epoch is None else leader_epoch,
            isr=row.isr,
            zk_version=row.partition_epoch,
            replicas=row.replicas,
            offline_replicas=tuple(each for each in row.replicas if each not in self.brokers or each in offline),
        )

    def stops(self, broker: int, rows: Rows) -> list[tuple[int, Request]]:
        """StopReplica without deletion: the broker stops following these partitions."""
        if not rows:
            return []
        topics = tuple(
            StopReplicaTopic(
                topic_name=topic.name,
                partition_states=tuple(
                    StopReplicaPartition(
                        partition_index=row.index, leader_epoch=row.leader_epoch, delete_partition=False
                    )
                    for row in partitions
                ),
            )
            for topic, partitions in rows
        )
        return [(broker, self._stop(broker, topics))]

    def removals(self, broker: int, epochs: Mapping[TopicPartition, int]) -> list[tuple[int, Request]]:
        """StopReplica with deletion of replicas that a reassignment removed; `epochs` are the leader epochs."""
        if not epochs or broker not in self.brokers:
            return []
        topics: dict[str, list[StopReplicaPartition]] = {}
        for at, epoch in epochs.items():
            state = StopReplicaPartition(partition_index=at.partition, leader_epoch=epoch, delete_partition=True)
            topics.setdefault(at.topic, []).append(state)
        states = tuple(StopReplicaTopic(topic_name=name, partition_states=tuple(each)) for name, each in topics.items())
        return [(broker, self._stop(broker, states))]

    def _stop(self, broker: int, topics: tuple[StopReplicaTopic, ...]) -> StopReplicaRequest:
        return StopReplicaRequest(
            controller_id=self.controller_id,
            controller_epoch=self.controller_epoch,
            broker_epoch=self.brokers[broker].epoch,
            topic_states=topics,
        )

    def deletions(self, replicas: Mapping[int, Mapping[str, Sequence[int]]]) -> list[tuple[int, Request]]:
        """StopReplica with deletion of the partitions, by broker and topic."""
        return [
            (broker, self._stop(broker, tuple(_deletion(name, partitions) for name, partitions in topics.items())))
            for broker, topics in sorted(replicas.items())
            if broker in self.brokers
        ]


def _deletion(name: str, partitions: Sequence[int]) -> StopReplicaTopic:
    return StopReplicaTopic(
        topic_name=name,
        partition_states=tuple(
            StopReplicaPartition(partition_index=index, leader_epoch=EPOCH_DURING_DELETE, delete_partition=True)
            for index in partitions
        ),
    )


def _live(broker: Broker) -> LiveBroker:
    return LiveBroker(
        id=broker.id,
        endpoints=tuple(
            LiveEndpoint(port=at.port, host=at.host, listener=at.name, security_protocol=at.security_protocol)
            for at in broker.listeners
        ),
        rack=broker.rack,
    )


def replicas_with(
    code: ErrorCode, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
) -> list[TopicPartition]:
    """The partitions with this error code in the response: KAFKA_STORAGE_ERROR is offline, NONE online."""
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    return [
        TopicPartition(names.get(topic.topic_id, topic.topic_name), each.partition_index)
        for topic in response.topics
        for each in topic.partition_errors
        if each.error_code is code
    ]


def deleted_topics(request: StopReplicaRequest, response: StopReplicaResponse | None) -> dict[str, bool]:
    """By topic that is being deleted, whether the broker has deleted all its replicas. `response` None: an unreadable
    response.
    """
    # A replica that a reassignment removed has an epoch; its deletion is not awaited.
    deleting = [
        topic.topic_name
        for topic in request.topic_states
        if any(each.leader_epoch == EPOCH_DURING_DELETE for each in topic.partition_states)
    ]
    if response is None or response.error_code is not ErrorCode.NONE:
        return dict.fromkeys(deleting, False)
    failed = {each.topic_name for each in response.partition_errors if each.error_code is not ErrorCode.NONE}
    return {name: name not in failed for name in deleting}
