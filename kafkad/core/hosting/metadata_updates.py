"""What UpdateMetadata says, as changes of the image: the live brokers, and the states of partitions anywhere."""

from collections.abc import Mapping, Set
from dataclasses import replace

from msgspec import structs

from kafkad.core.cluster.control_requests import (
    LEADER_DURING_DELETE,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
    is_partition_index,
)
from kafkad.core.controller.image import NO_LOG_DIR, NO_SLOT, Broker, Listener, MetadataImage, Partition, Topic
from kafkad.core.hosting.image_changes import ImageChanges
from kafkad.core.hosting.lost_roles import LostRoles
from kafkad.core.hosting.unapplied_states import UnappliedStates, elsewhere
from kafkad.core.types import NO_BROKER_EPOCH, NO_TOPIC_ID

Configs = Mapping[str, Mapping[str, str]]
"""The configurations of topics by name, for those that the image does not have yet."""


def live_brokers(request: UpdateMetadataRequest, own_id: int, own_epoch: int) -> tuple[Broker, ...]:
    """All of them, by id. A broker knows no other's epoch."""
    return tuple(
        Broker(
            id=live.id,
            epoch=own_epoch if live.id == own_id else NO_BROKER_EPOCH,
            listeners=tuple(
                Listener(name=at.listener, host=at.host, port=at.port, security_protocol=at.security_protocol)
                for at in live.endpoints
            ),
            rack=live.rack,
        )
        for live in sorted(request.live_brokers, key=lambda live: live.id)
    )


def removed_replicas(
    topic: UpdateMetadataTopic, changes: ImageChanges, broker_id: int, former: LostRoles, broker_epoch: int
) -> list[Partition]:
    """The replicas here that a reassignment has removed, though the StopReplica for it is missing: its controller died,
    or it was for an earlier registration. This was said to the registration `broker_epoch`.
    """
    name = topic.topic_name
    if changes.topic_id(name) != topic.topic_id or topic.topic_id == NO_TOPIC_ID:
        return []
    removed = []
    for state in topic.partition_states:
        row = changes.row(name, state.partition_index)
        if row is None or row.slot == NO_SLOT or row.log_dir == NO_LOG_DIR or broker_id in state.replicas:
            continue
        known_epoch = former.leader_epoch(topic.topic_id, row, broker_epoch)
        if known_epoch is not None and (state.leader == LEADER_DURING_DELETE or state.leader_epoch > known_epoch):
            removed.append(row)
    return removed


def note_topic(
    topic: UpdateMetadataTopic,
    live: Set[int],
    changes: ImageChanges,
    configs: Configs,
    condemned: set[str],
    unheeded: UnappliedStates,
) -> None:
    """`condemned` are topics that go with their last replica here."""
    name = topic.topic_name
    known_id = changes.topic_id(name)
    if known_id is not None and topic.topic_id not in (NO_TOPIC_ID, known_id):
        if changes.is_hosted(name):
            # LeaderAndIsr is refused as well: somebody has to delete the directories.
            return
        changes.delete(name)
        known_id = None
    if any(state.leader == LEADER_DURING_DELETE for state in topic.partition_states):
        if known_id is not None and changes.is_hosted(name):
            condemned.add(name)
        else:
            changes.delete(name)
        return
    if known_id is None and topic.topic_id == NO_TOPIC_ID:
        return
    condemned.discard(name)
    for state in topic.partition_states:
        if is_partition_index(state.partition_index):
            _note_partition(topic, _on_live_brokers(state, live), changes, configs, unheeded)


def _on_live_brokers(state: UpdateMetadataPartition, live: Set[int]) -> UpdateMetadataPartition:
    """Of the offline replicas those whose directory has failed: who comes back later is offline no more."""
    if not state.offline_replicas:
        return state
    return replace(state, offline_replicas=tuple(each for each in state.offline_replicas if each in live))


def _note_partition(
    topic: UpdateMetadataTopic,
    state: UpdateMetadataPartition,
    changes: ImageChanges,
    configs: Configs,
    unheeded: UnappliedStates,
) -> None:
    name = topic.topic_name
    known = changes.row(name, state.partition_index)
    if known is not None and known.slot != NO_SLOT:
        # A start may read the state that a reassignment has written, and its topic's node from before: the replicas
        # change without another epoch. So do those that are offline.
        is_same = known.partition_epoch == state.zk_version and known.leader_epoch == state.leader_epoch
        is_known = (known.replicas, known.offline) == (state.replicas, state.offline_replicas)
        if known.partition_epoch >= state.zk_version and (not is_same or is_known):
            return
        newer = structs.replace(
            known,
            isr=state.isr,
            partition_epoch=state.zk_version,
            replicas=state.replicas,
            offline=state.offline_replicas,
        )
        if known.leader_epoch == state.leader_epoch:
            changes.put(name, topic.topic_id, newer)
        # The role of a replica comes with LeaderAndIsr; one whose directory has failed takes no role.
        elif known.log_dir == NO_LOG_DIR and state.leader_epoch > known.leader_epoch:
            newer = structs.replace(newer, leader=state.leader, leader_epoch=state.leader_epoch)
            changes.put(name, topic.topic_id, newer)
        elif state.leader_epoch > known.leader_epoch:
            unheeded.note(topic, state)
        return
    changes.put(name, topic.topic_id, elsewhere(state), configs.get(name, {}))


def forget_deleted(known: Mapping[str, Topic], present: Set[str], image: MetadataImage, changes: ImageChanges) -> None:
    """Of the topics that were `known` before it was asked which are `present`, the others were deleted, and nobody may
    have said so: a controller that is gone, or to a registration that is over. One that has a replica here stays: that
    is for StopReplica.
    """
    for name in sorted(known.keys() - present):
        topic = image.topics.get(name)
        if topic is not None and topic.id == known[name].id and not changes.is_hosted(name):
            changes.delete(name)
