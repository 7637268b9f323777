"""The requests of the elected controller on the broker that gets them: LeaderAndIsr, UpdateMetadata, StopReplica.

LeaderAndIsr alone gives this broker a replica and its role: a row of the image with a slot. UpdateMetadata says the
rest of the cluster's state; of a partition hosted here it brings only newer in-sync replicas of the same leader epoch,
as its next epoch comes with a LeaderAndIsr of its own, or that its replica is not here any more. Error codes are those
of Apache Kafka 3.9 in ZooKeeper mode. Nothing here is stored: after a start the controller tells everything again.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from msgspec import structs

from kafkad.core.cluster.control_requests import (
    EPOCH_DURING_DELETE,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    LeaderAndIsrTopicError,
    PartitionError,
    StopReplicaError,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    is_partition_index,
)
from kafkad.core.controller import deltas
from kafkad.core.controller.image import (
    NO_LEADER,
    NO_LOG_DIR,
    NO_SLOT,
    Broker,
    Listener,
    MetadataImage,
    Partition,
    Topic,
)
from kafkad.core.controller.partition_rows import after_move, directory_offline, moves_begun
from kafkad.core.controller.topics.placement import Place, Placement
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.hosting.image_changes import ImageChanges
from kafkad.core.hosting.lost_roles import LostRoles
from kafkad.core.hosting.metadata_updates import Configs, forget_deleted, live_brokers, note_topic, removed_replicas
from kafkad.core.hosting.replicas_without_space import ReplicasWithoutRoom, RoomEvent
from kafkad.core.hosting.role_errors import refused, topic_error
from kafkad.core.hosting.unapplied_states import UnappliedStates
from kafkad.core.types import NO_BROKER_EPOCH, NO_LEADER_EPOCH, NO_TOPIC_ID, TopicPartition

NO_CONTROLLER_EPOCH = -1


class Hosting:
    """Every request that changes something increases `image.version` by one."""

    def __init__(
        self,
        *,
        broker_id: int,
        image: MetadataImage,
        placement: Placement,
        has_offline_directory: bool,
    ) -> None:
        self.image = image
        self.controller_epoch, self.broker_epoch = NO_CONTROLLER_EPOCH, NO_BROKER_EPOCH
        self._broker_id = broker_id
        self._placement = placement
        self.cordon = placement.cordon
        self.prefer_log_dir = placement.prefer
        self._has_offline_directory = has_offline_directory
        self._condemned: set[str] = set()
        """Topics that are being deleted: they go when their last replica here has gone."""
        self.unremoved: set[TopicPartition] = set()
        """Replicas that were to be deleted here, and whose directories can't be renamed."""
        self._lost_roles = LostRoles()
        self._unapplied = UnappliedStates()
        self._without_space = ReplicasWithoutRoom(broker_id)
        self._outbox: list[deltas.MetadataDelta] = []

    @property
    def slots_ever_used(self) -> int:
        return self._placement.slots_ever_used

    def has_replica(self, at: TopicPartition) -> bool:
        known = self.image.topics.get(at.topic)
        return known is not None and known.partitions[at.partition].slot != NO_SLOT

    @property
    def cordoned_dirs(self) -> frozenset[int]:
        """The log directories that get nothing new."""
        return self._placement.cordoned

    def take_deltas(self) -> list[deltas.MetadataDelta]:
        """The deltas to publish, oldest first; empties the list."""
        taken, self._outbox = self._outbox, []
        return taken

    def registered(self, epoch: int, listeners: tuple[Listener, ...], rack: str | None) -> None:
        """The broker has a new registration: from now on only requests to it, or to later ones, are taken.

        The controller tells everything again, also what it has told the registration before.
        """
        self.broker_epoch = epoch
        own = Broker(id=self._broker_id, epoch=epoch, listeners=listeners, rack=rack)
        brokers = {**self.image.brokers, self._broker_id: own}
        self._publish((deltas.BrokersChanged(tuple(brokers.values())),))

    def session_lost(self) -> None:
        """Another broker may lead in our place by now: no role is ours until the controller gives it again."""
        changes = ImageChanges(self.image)
        for topic in self.image.topics.values():
            for row in topic.partitions:
                if row.slot != NO_SLOT:
                    self._lost_roles.lost(topic.id, row, self.broker_epoch)
                    none = structs.replace(row, leader=NO_LEADER, leader_epoch=NO_LEADER_EPOCH)
                    changes.put(topic.name, topic.id, none)
        self._publish(changes.deltas())

    def unknown_topics(self, request: LeaderAndIsrRequest | UpdateMetadataRequest) -> set[str]:
        """The topics whose configurations are needed to carry out the request."""
        return {
            topic.topic_name
            for topic in request.topic_states
            if (known := self.image.topics.get(topic.topic_name)) is None
            or topic.topic_id not in (NO_TOPIC_ID, known.id)
        }

    # LeaderAndIsr.

    def leader_and_isr(self, request: LeaderAndIsrRequest, configs: Configs) -> LeaderAndIsrResponse:
        """Give this broker the replicas and roles that the request names."""
        refusal = self._refusal(request.broker_epoch, request.controller_epoch)
        if refusal is not None:
            return refused(request, refusal)
        self.controller_epoch = request.controller_epoch
        changes = ImageChanges(self.image)
        answers = tuple(self._take_topic(topic, changes, configs) for topic in request.topic_states)
        self._publish(changes.deltas())
        return LeaderAndIsrResponse(error_code=ErrorCode.NONE, topics=answers)

    def _take_topic(self, topic: LeaderAndIsrTopic, changes: ImageChanges, configs: Configs) -> LeaderAndIsrTopicError:
        known_id = changes.topic_id(topic.topic_name)
        if known_id is not None and topic.topic_id not in (NO_TOPIC_ID, known_id):
            if changes.is_hosted(topic.topic_name):
                return topic_error(topic, ErrorCode.INCONSISTENT_TOPIC_ID)
            changes.delete(topic.topic_name)
        errors = []
        for state in topic.partition_states:
            code = self._take_partition(topic, state, changes, configs)
            errors.append(PartitionError(partition_index=state.partition_index, error_code=code))
        return LeaderAndIsrTopicError(
            topic_name=topic.topic_name, topic_id=topic.topic_id, partition_errors=tuple(errors)
        )

    def _take_partition(
        self, topic: LeaderAndIsrTopic, state: LeaderAndIsrPartition, changes: ImageChanges, configs: Configs
    ) -> ErrorCode:
        at = TopicPartition(topic.topic_name, state.partition_index)
        known = changes.row(topic.topic_name, state.partition_index)
        held = known if known is not None and known.slot != NO_SLOT else None
        topic_id = changes.topic_id(topic.topic_name)
        if held is not None and (code := self._without_another_role(at, held, state)) is not None:
            return code
        if self._broker_id not in state.replicas or not is_partition_index(state.partition_index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic_id is None and topic.topic_id == NO_TOPIC_ID:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if held is not None:
            place = Place(held.slot, held.owner, held.log_dir)
        else:
            try:
                place = self._new_place(topic, state)
            except KafkaError as error:
                return error.code
        changes.put(
            topic.topic_name,
            topic.topic_id,
            Partition(
                index=state.partition_index,
                slot=place.slot,
                owner=place.owner,
                log_dir=place.log_dir,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                replicas=state.replicas,
                isr=state.isr,
                future_dir=held.future_dir if held is not None else NO_LOG_DIR,
                adding=state.adding_replicas,
                removing=state.removing_replicas,
                offline=known.offline if known is not None else (),
            ),
            configs.get(topic.topic_name, {}),
        )
        is_unusable = place.log_dir == NO_LOG_DIR or (held is not None and self._without_space.has_left(at))
        return ErrorCode.KAFKA_STORAGE_ERROR if is_unusable else ErrorCode.NONE

    def _without_another_role(
        self, at: TopicPartition, held: Partition, state: LeaderAndIsrPartition
    ) -> ErrorCode | None:
        """The answer if the replica `held` here keeps its role; None: it takes that of the state."""
        if held.log_dir == NO_LOG_DIR:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if state.leader_epoch < held.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        has_left = self._without_space.has_left(at)
        leaves = self._without_space.leave(at, held, state, self.image.brokers)
        if leaves and (state.leader == self._broker_id or state.leader_epoch == held.leader_epoch):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if state.leader_epoch == held.leader_epoch:
            return ErrorCode.NONE if has_left else ErrorCode.STALE_CONTROLLER_EPOCH
        return None

    def _new_place(self, topic: LeaderAndIsrTopic, state: LeaderAndIsrPartition) -> Place:
        """Raises KafkaError when this broker can't have it. A replica that is not new and on no disk may be in the
        directory that is offline: it must not begin empty.
        """
        partition = TopicPartition(topic.topic_name, state.partition_index)
        is_offline = self._has_offline_directory and not state.is_new
        if partition in self.unremoved:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the directory of {partition} is still that of before")
        if not (self._placement.has_slots(1) if is_offline else self._placement.has_space(1)):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"there is no room for {partition}")
        return self._placement.take_in(NO_LOG_DIR) if is_offline else self._placement.take(1, [partition])[0]

    # UpdateMetadata.

    def update_metadata(self, request: UpdateMetadataRequest, configs: Configs) -> UpdateMetadataResponse:
        """Take over the live brokers, and the states of partitions."""
        refusal = self._refusal(request.broker_epoch, request.controller_epoch)
        if refusal is not None:
            return UpdateMetadataResponse(error_code=refusal)
        self.controller_epoch = request.controller_epoch
        changes = ImageChanges(self.image)
        brokers = live_brokers(request, self._broker_id, self.broker_epoch)
        if brokers != tuple(self.image.brokers.values()):
            changes.add(deltas.BrokersChanged(brokers))
        if request.controller_id != self.image.controller_id:
            changes.add(deltas.ControllerChanged(request.controller_id))
        # Before this broker is registered, what comes is for a former life of it.
        told_epoch = NO_BROKER_EPOCH if self.broker_epoch == NO_BROKER_EPOCH else request.broker_epoch
        live = frozenset(each.id for each in brokers)
        for topic in request.topic_states:
            removed = removed_replicas(topic, changes, self._broker_id, self._lost_roles, told_epoch)
            self._remove(topic.topic_name, removed, changes)
            note_topic(topic, live, changes, configs, self._condemned, self._unapplied)
        self._publish(changes.deltas())
        return UpdateMetadataResponse(error_code=ErrorCode.NONE)

    def topics_are(self, names: Set[str], known: Mapping[str, Topic]) -> None:
        """The cluster has these topics, the image had those `known` when that was asked."""
        changes = ImageChanges(self.image)
        forget_deleted(known, names, self.image, changes)
        self._publish(changes.deltas())

    # StopReplica.

    def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Neither lead nor follow these partitions any more, and delete those that the request says."""
        refusal = self._refusal(request.broker_epoch, request.controller_epoch)
        if refusal is not None:
            return StopReplicaResponse(error_code=refusal)
        self.controller_epoch = request.controller_epoch
        changes = ImageChanges(self.image)
        errors = []
        for topic in request.topic_states:
            removed: list[Partition] = []
            for state in topic.partition_states:
                code = self._stop(topic.topic_name, state, changes, removed)
                errors.append(
                    StopReplicaError(
                        topic_name=topic.topic_name, partition_index=state.partition_index, error_code=code
                    )
                )
            self._remove(topic.topic_name, removed, changes)
        self._publish(changes.deltas())
        return StopReplicaResponse(error_code=ErrorCode.NONE, partition_errors=tuple(errors))

    def _stop(
        self, name: str, state: StopReplicaPartition, changes: ImageChanges, removed: list[Partition]
    ) -> ErrorCode:
        known = changes.row(name, state.partition_index)
        if known is None or known.slot == NO_SLOT:
            is_left = TopicPartition(name, state.partition_index) in self.unremoved
            return ErrorCode.KAFKA_STORAGE_ERROR if is_left else ErrorCode.NONE
        if known.log_dir == NO_LOG_DIR:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if state.leader_epoch == EPOCH_DURING_DELETE:
            self._condemned.add(name)
        # A request of an old version does not say the leader epoch.
        is_compared = state.leader_epoch not in (EPOCH_DURING_DELETE, NO_LEADER_EPOCH)
        if is_compared and state.leader_epoch < known.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if state.delete_partition:
            removed.append(known)
        else:
            changes.put(name, changes.topic_id(name) or NO_TOPIC_ID, structs.replace(known, leader=NO_LEADER))
        return ErrorCode.NONE

    def _remove(self, name: str, removed: list[Partition], changes: ImageChanges) -> None:
        if removed:
            self._placement.free(removed, self.image.version + 1)
            changes.remove_replicas(name, removed)
            self._unapplied.heed(name, removed, changes)
        if name in self._condemned and not changes.is_hosted(name):
            self._condemned.discard(name)
            changes.delete(name)

    # What comes from the store and from this broker.

    def topic_config_changed(self, name: str, configs: Mapping[str, str]) -> None:
        topic = self.image.topics.get(name)
        if topic is not None and topic.configs != configs:
            self._publish((deltas.TopicConfigChanged(name, dict(configs)),))

    def broker_config_changed(self, broker: str, configs: Mapping[str, str]) -> None:
        """`broker` is an id as text, or empty for the default of all."""
        if self.image.broker_configs.get(broker, {}) != configs:
            self._publish((deltas.BrokerConfigChanged(broker, dict(configs)),))

    def begin_with(self, features: Mapping[str, int], epoch: int, group_configs: Mapping[str, dict[str, str]]) -> None:
        """Before the first version is published: the finalized features, how often they were changed, and groups."""
        self.image = replace(self.image, features=features, features_epoch=epoch, group_configs=group_configs)

    def group_config_changed(self, group_id: str, configs: Mapping[str, str]) -> None:
        if self.image.group_configs.get(group_id, {}) != configs:
            self._publish((deltas.GroupConfigChanged(group_id, dict(configs)),))

    def features_changed(self, levels: Mapping[str, int], epoch: int) -> None:
        """The levels of the cluster, and how often they were changed."""
        if (self.image.features, self.image.features_epoch) != (levels, epoch):
            self._publish((deltas.FeaturesChanged(dict(levels), epoch),))

    def directory_failed(self, log_dir: int) -> None:
        """The log directory is offline: LeaderAndIsr is answered with the error from which the controller elects."""
        self._placement.directory_failed(log_dir)
        self._has_offline_directory = True
        self._change_directories(directory_offline(self.image, log_dir, {}))

    def log_dirs_without_room(self, log_dirs: frozenset[int]) -> None:
        """Others are to lead the partitions in these log directories, and this broker again those in others."""
        self._without_space.log_dirs = log_dirs

    def replicas_inherited(self) -> None:
        """From a controller process that died, and may have left some of them to other leaders for want of room."""
        self._without_space.may_have_left(self.image)

    def take_room_event(self) -> RoomEvent | None:
        """What the controller is to be told of the room of log directories since the last call."""
        return self._without_space.event(self.image)

    def move_partitions(self, targets: Mapping[TopicPartition, int]) -> None:
        """Their owners move them to these log directories; the directory where a partition is ends its move."""
        self._change_directories(moves_begun(self.image, targets))

    def partition_moved(self, topic_id: bytes, index: int, log_dir: int, target: int) -> None:
        """Its owner says that the replica is in `log_dir`, and no longer on its way to `target`."""
        self._change_directories(after_move(self.image, topic_id, index, log_dir, target))

    def _change_directories(self, changes: Sequence[deltas.PartitionsChanged]) -> None:
        self._placement.count(self.image, changes)
        self._publish(changes)

    def acknowledged(self, version: int) -> None:
        """Every live process has applied `version`, and freed the slots that were given back by then."""
        self._placement.acknowledged(version)

    def _refusal(self, broker_epoch: int, controller_epoch: int) -> ErrorCode | None:
        if broker_epoch != NO_BROKER_EPOCH and broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.STALE_CONTROLLER_EPOCH if controller_epoch < self.controller_epoch else None

    def _publish(self, changes: Iterable[deltas.Change]) -> None:
        together = tuple(changes)
        if together:
            delta = deltas.MetadataDelta(self.image.version + 1, together)
            self.image = deltas.apply(self.image, delta)
            self._outbox.append(delta)
