"""Handles the elected controller's requests on each broker: LeaderAndIsr, UpdateMetadata, StopReplica.

Only LeaderAndIsr gives this broker a replica and its role: a row of the image with a slot. UpdateMetadata carries the
state of the cluster; for a partition hosted here it brings only newer in-sync replicas of the same leader epoch (a new
epoch comes with its own LeaderAndIsr), or the removal of the replica. Error codes are those of Apache Kafka 3.9 in
ZooKeeper mode. Nothing is stored: after a start the controller sends everything again.
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
from kafkad.core.controller.topics.names import is_legal
from kafkad.core.controller.topics.placement import Place, Placement
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.hosting.image_changes import ImageChanges
from kafkad.core.hosting.lost_roles import LostRoles
from kafkad.core.hosting.metadata_updates import Configs, forget_deleted, live_brokers, removed_replicas, update_topic
from kafkad.core.hosting.replicas_without_space import ReplicasWithoutSpace, SpaceEvent
from kafkad.core.hosting.unapplied_states import UnappliedStates
from kafkad.core.types import NO_BROKER_EPOCH, NO_LEADER_EPOCH, NO_TOPIC_ID, TopicPartition

NO_CONTROLLER_EPOCH = -1


class Hosting:
    """Each request that changes something increases `image.version` by one."""

    def __init__(
        self,
        *,
        broker_id: int,
        image: MetadataImage,
        placement: Placement,
        has_offline_directory: bool,
        is_single: bool = False,
    ) -> None:
        """A single broker takes over directories of unknown topics: a deletion waits for all of its directories."""
        self.image = image
        self.controller_epoch, self.broker_epoch = NO_CONTROLLER_EPOCH, NO_BROKER_EPOCH
        self._broker_id = broker_id
        self._placement = placement
        self.cordon = placement.cordon
        self.prefer_log_dir = placement.prefer
        self._has_offline_directory = has_offline_directory
        self._is_single = is_single
        self._topics_to_delete: set[str] = set()
        """Topics that are being deleted: they are removed after their last replica here."""
        self.unremoved: set[TopicPartition] = set()
        """Deleted replicas here whose directories can't be renamed."""
        self._lost_roles = LostRoles()
        self._unapplied = UnappliedStates()
        self._without_space = ReplicasWithoutSpace(broker_id)
        self._outbox: list[deltas.MetadataDelta] = []

    @property
    def slots_ever_used(self) -> int:
        return self._placement.slots_ever_used

    def has_replica(self, at: TopicPartition) -> bool:
        topic = self.image.topics.get(at.topic)
        return topic is not None and topic.partitions[at.partition].slot != NO_SLOT

    def require_space(self, count: int) -> None:
        """Raises KafkaError if this broker has no space for so many more partitions."""
        self._placement.require(count)

    @property
    def cordoned_dirs(self) -> frozenset[int]:
        """The log directories that get no new partitions."""
        return self._placement.cordoned

    def take_deltas(self) -> list[deltas.MetadataDelta]:
        """The deltas to publish, oldest first; empties the list."""
        taken, self._outbox = self._outbox, []
        return taken

    def registered(self, epoch: int, listeners: tuple[Listener, ...], rack: str | None) -> None:
        """The broker has a new registration: from now on only requests to it, or to later ones, are accepted.

        The controller sends everything again to a new registration.
        """
        self.broker_epoch = epoch
        own = Broker(id=self._broker_id, epoch=epoch, listeners=listeners, rack=rack)
        brokers = {**self.image.brokers, self._broker_id: own}
        self._publish((deltas.BrokersChanged(tuple(brokers.values())),))

    def session_lost(self) -> None:
        """Another broker may lead now: this broker has no role until the controller assigns it again."""
        changes = ImageChanges(self.image)
        for topic in self.image.topics.values():
            for row in topic.partitions:
                if row.slot != NO_SLOT:
                    self._lost_roles.lost(topic.id, row, self.broker_epoch)
                    none = structs.replace(row, leader=NO_LEADER, leader_epoch=NO_LEADER_EPOCH)
                    changes.put(topic.name, topic.id, none)
        self._publish(changes.deltas())

    def unknown_topics(self, request: LeaderAndIsrRequest | UpdateMetadataRequest) -> set[str]:
        """The topics whose configurations are required to handle the request."""
        return {
            topic.topic_name
            for topic in request.topic_states
            if (topic_here := self.image.topics.get(topic.topic_name)) is None
            or topic.topic_id not in (NO_TOPIC_ID, topic_here.id)
            if is_legal(topic.topic_name)
        }

    # LeaderAndIsr.

    def leader_and_isr(self, request: LeaderAndIsrRequest, configs: Configs) -> LeaderAndIsrResponse:
        """Assign the replicas and roles of the request to this broker."""
        error = self._epoch_error(request.broker_epoch, request.controller_epoch)
        if error is not None:
            return _rejected_request(request, error)
        self.controller_epoch = request.controller_epoch
        changes = ImageChanges(self.image)
        errors = tuple(self._apply_topic(topic, changes, configs) for topic in request.topic_states)
        self._publish(changes.deltas())
        return LeaderAndIsrResponse(error_code=ErrorCode.NONE, topics=errors)

    def _apply_topic(self, topic: LeaderAndIsrTopic, changes: ImageChanges, configs: Configs) -> LeaderAndIsrTopicError:
        if not is_legal(topic.topic_name):
            return _topic_error(topic, ErrorCode.INVALID_TOPIC_EXCEPTION)
        own_id = changes.topic_id(topic.topic_name)
        if own_id is not None and topic.topic_id not in (NO_TOPIC_ID, own_id):
            if changes.is_hosted(topic.topic_name):
                return _topic_error(topic, ErrorCode.INCONSISTENT_TOPIC_ID)
            changes.delete(topic.topic_name)
        errors = []
        for state in topic.partition_states:
            code = self._apply_partition(topic, state, changes, configs)
            errors.append(PartitionError(partition_index=state.partition_index, error_code=code))
        return LeaderAndIsrTopicError(
            topic_name=topic.topic_name, topic_id=topic.topic_id, partition_errors=tuple(errors)
        )

    def _apply_partition(
        self, topic: LeaderAndIsrTopic, state: LeaderAndIsrPartition, changes: ImageChanges, configs: Configs
    ) -> ErrorCode:
        at = TopicPartition(topic.topic_name, state.partition_index)
        row = changes.row(topic.topic_name, state.partition_index)
        hosted = row if row is not None and row.slot != NO_SLOT else None
        topic_id = changes.topic_id(topic.topic_name)
        if hosted is not None and (code := self._code_without_role_change(at, hosted, state)) is not None:
            return code
        if self._broker_id not in state.replicas or not is_partition_index(state.partition_index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic_id is None and topic.topic_id == NO_TOPIC_ID:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if hosted is not None:
            place = Place(hosted.slot, hosted.owner, hosted.log_dir)
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
                future_dir=hosted.future_dir if hosted is not None else NO_LOG_DIR,
                adding=state.adding_replicas,
                removing=state.removing_replicas,
                offline=row.offline if row is not None else (),
            ),
            configs.get(topic.topic_name, {}),
        )
        is_unusable = place.log_dir == NO_LOG_DIR or (hosted is not None and self._without_space.has_resigned(at))
        return ErrorCode.KAFKA_STORAGE_ERROR if is_unusable else ErrorCode.NONE

    def _code_without_role_change(
        self, at: TopicPartition, hosted: Partition, state: LeaderAndIsrPartition
    ) -> ErrorCode | None:
        """The code if the `hosted` replica keeps its role; None: it gets the role of `state`."""
        if hosted.log_dir == NO_LOG_DIR:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if state.leader_epoch < hosted.leader_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        has_resigned = self._without_space.has_resigned(at)
        resigns = self._without_space.resign(at, hosted, state, self.image.brokers)
        if resigns and (state.leader == self._broker_id or state.leader_epoch == hosted.leader_epoch):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if state.leader_epoch == hosted.leader_epoch:
            return ErrorCode.NONE if has_resigned else ErrorCode.STALE_CONTROLLER_EPOCH
        return None

    def _new_place(self, topic: LeaderAndIsrTopic, state: LeaderAndIsrPartition) -> Place:
        """The place of a new replica. Raises KafkaError if this broker can't have it. A replica that is not new and on
        no disk may be in an offline directory, so it must not start empty.
        """
        partition = TopicPartition(topic.topic_name, state.partition_index)
        is_offline = self._has_offline_directory and not state.is_new
        if partition in self.unremoved:
            text = f"the directory of an earlier replica of {partition} could not be renamed"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)
        if not (self._placement.has_slots(1) if is_offline else self._placement.has_space(1)):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"there is no space for {partition}")
        return self._placement.take_in(NO_LOG_DIR) if is_offline else self._placement.take(1, [partition])[0]

    # UpdateMetadata.

    def update_metadata(self, request: UpdateMetadataRequest, configs: Configs) -> UpdateMetadataResponse:
        """Take over the live brokers, and the states of partitions."""
        error = self._epoch_error(request.broker_epoch, request.controller_epoch)
        if error is not None:
            return UpdateMetadataResponse(error_code=error)
        self.controller_epoch = request.controller_epoch
        changes = ImageChanges(self.image)
        brokers = live_brokers(request, self._broker_id, self.broker_epoch)
        if brokers != tuple(self.image.brokers.values()):
            changes.add(deltas.BrokersChanged(brokers))
        if request.controller_id != self.image.controller_id:
            changes.add(deltas.ControllerChanged(request.controller_id))
        # Before this broker is registered, requests are for an earlier registration.
        receiver_epoch = NO_BROKER_EPOCH if self.broker_epoch == NO_BROKER_EPOCH else request.broker_epoch
        live = frozenset(each.id for each in brokers)
        for topic in request.topic_states:
            removed = removed_replicas(topic, changes, self._broker_id, self._lost_roles, receiver_epoch)
            self._remove(topic.topic_name, removed, changes)
            update_topic(topic, live, changes, configs, self._topics_to_delete, self._unapplied)
        self._publish(changes.deltas())
        return UpdateMetadataResponse(error_code=ErrorCode.NONE)

    def remove_missing_topics(self, names: Set[str], before: Mapping[str, Topic]) -> None:
        """The cluster has these topics. `before` are the image's topics at the time of this request to the store."""
        changes = ImageChanges(self.image)
        forget_deleted(before, names, self.image, changes)
        self._publish(changes.deltas())

    # StopReplica.

    def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop leading and following these partitions, and delete replicas as requested."""
        error = self._epoch_error(request.broker_epoch, request.controller_epoch)
        if error is not None:
            return StopReplicaResponse(error_code=error)
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
        row = changes.row(name, state.partition_index)
        if row is None or row.slot == NO_SLOT:
            is_unremoved = TopicPartition(name, state.partition_index) in self.unremoved
            may_be_offline = self._is_single and self._has_offline_directory and state.delete_partition
            return ErrorCode.KAFKA_STORAGE_ERROR if is_unremoved or may_be_offline else ErrorCode.NONE
        if row.log_dir == NO_LOG_DIR:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if state.leader_epoch == EPOCH_DURING_DELETE:
            self._topics_to_delete.add(name)
        # A request of an old version has no leader epoch.
        is_compared = state.leader_epoch not in (EPOCH_DURING_DELETE, NO_LEADER_EPOCH)
        if is_compared and state.leader_epoch < row.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if state.delete_partition:
            removed.append(row)
        else:
            changes.put(name, changes.topic_id(name) or NO_TOPIC_ID, structs.replace(row, leader=NO_LEADER))
        return ErrorCode.NONE

    def _remove(self, name: str, removed: list[Partition], changes: ImageChanges) -> None:
        if removed:
            self._placement.free(removed, self.image.version + 1)
            changes.remove_replicas(name, removed)
            self._unapplied.apply_removed(name, removed, changes)
        if name in self._topics_to_delete and not changes.is_hosted(name):
            self._topics_to_delete.discard(name)
            changes.delete(name)

    # Changes from the store and from this broker.

    def topic_config_changed(self, name: str, configs: Mapping[str, str]) -> None:
        topic = self.image.topics.get(name)
        if topic is not None and topic.configs != configs:
            self._publish((deltas.TopicConfigChanged(name, dict(configs)),))

    def broker_config_changed(self, broker: str, configs: Mapping[str, str]) -> None:
        """`broker` is an id as text, or empty for the default of all brokers."""
        if self.image.broker_configs.get(broker, {}) != configs:
            self._publish((deltas.BrokerConfigChanged(broker, dict(configs)),))

    def set_initial(self, features: Mapping[str, int], epoch: int, group_configs: Mapping[str, dict[str, str]]) -> None:
        """Before the first version is published: the finalized features with their epoch, and group configurations."""
        self.image = replace(self.image, features=features, features_epoch=epoch, group_configs=group_configs)

    def group_config_changed(self, group_id: str, configs: Mapping[str, str]) -> None:
        if self.image.group_configs.get(group_id, {}) != configs:
            self._publish((deltas.GroupConfigChanged(group_id, dict(configs)),))

    def features_changed(self, levels: Mapping[str, int], epoch: int) -> None:
        """The finalized levels of the cluster, and their epoch."""
        if (self.image.features, self.image.features_epoch) != (levels, epoch):
            self._publish((deltas.FeaturesChanged(dict(levels), epoch),))

    def directory_failed(self, log_dir: int) -> None:
        """The log directory is offline: errors in LeaderAndIsr responses make the controller elect other leaders."""
        self._placement.directory_failed(log_dir)
        self._has_offline_directory = True
        self._change_directories(directory_offline(self.image, log_dir, {}))

    def log_dirs_without_space(self, log_dirs: frozenset[int]) -> None:
        """Other brokers shall lead the partitions in these log directories; those in others may be led here again."""
        self._without_space.log_dirs = log_dirs

    def replicas_inherited(self) -> None:
        """The replicas are from a failed controller process, which may have left some to other leaders."""
        self._without_space.forget_responses(self.image)

    def take_space_event(self) -> SpaceEvent | None:
        """The changes of full log directories since the last call, for the controller."""
        return self._without_space.event(self.image)

    def move_partitions(self, targets: Mapping[TopicPartition, int]) -> None:
        """Move partitions to these log directories; the present directory of a partition cancels its move."""
        self._change_directories(moves_begun(self.image, targets))

    def partition_moved(self, topic_id: bytes, index: int, log_dir: int, target: int) -> None:
        """The owner reports the end of a move: the replica is in `log_dir`, the move to `target` is over."""
        self._change_directories(after_move(self.image, topic_id, index, log_dir, target))

    def _change_directories(self, changes: Sequence[deltas.PartitionsChanged]) -> None:
        self._placement.count(self.image, changes)
        self._publish(changes)

    def acknowledged(self, version: int) -> None:
        """Every live process has applied `version`, and released the slots freed by then."""
        self._placement.acknowledged(version)

    def _epoch_error(self, broker_epoch: int, controller_epoch: int) -> ErrorCode | None:
        if broker_epoch != NO_BROKER_EPOCH and broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.STALE_CONTROLLER_EPOCH if controller_epoch < self.controller_epoch else None

    def _publish(self, changes: Iterable[deltas.Change]) -> None:
        together = tuple(changes)
        if together:
            delta = deltas.MetadataDelta(self.image.version + 1, together)
            self.image = deltas.apply(self.image, delta)
            self._outbox.append(delta)


def _rejected_request(request: LeaderAndIsrRequest, code: ErrorCode) -> LeaderAndIsrResponse:
    """The error for the request and for every partition, as in Apache Kafka."""
    return LeaderAndIsrResponse(
        error_code=code,
        topics=tuple(_topic_error(topic, code) for topic in request.topic_states),
    )


def _topic_error(topic: LeaderAndIsrTopic, code: ErrorCode) -> LeaderAndIsrTopicError:
    return LeaderAndIsrTopicError(
        topic_name=topic.topic_name,
        topic_id=topic.topic_id,
        partition_errors=tuple(
            PartitionError(partition_index=state.partition_index, error_code=code) for state in topic.partition_states
        ),
    )
