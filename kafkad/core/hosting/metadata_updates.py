"""Applies UpdateMetadata to the image: the live brokers, and the states of partitions on all brokers."""

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
from kafkad.core.controller.topics.names import is_legal
from kafkad.core.hosting.image_changes import ImageChanges
from kafkad.core.hosting.lost_roles import LostRoles
from kafkad.core.hosting.unapplied_states import UnappliedStates, without_replica
from kafkad.core.types import NO_BROKER_EPOCH, NO_TOPIC_ID

Configs = Mapping[str, Mapping[str, str]]
"""The configurations of topics by name, for topics that the image does not have yet."""


def live_brokers(request: UpdateMetadataRequest, own_id: int, own_epoch: int) -> tuple[Broker, ...]:
    """All live brokers, by id. A broker does not have the epochs of others."""
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
    topic: UpdateMetadataTopic, changes: ImageChanges, broker_id: int, lost_roles: LostRoles, receiver_epoch: int
) -> list[Partition]:
    """The replicas here that a reassignment has removed without a StopReplica: its controller failed, or sent it to an
    earlier registration. This request was sent to the registration `receiver_epoch`.
    """
    name = topic.topic_name
    if changes.topic_id(name) != topic.topic_id or topic.topic_id == NO_TOPIC_ID:
        return []
    removed = []
    for state in topic.partition_states:
        row = changes.row(name, state.partition_index)
        if row is None or row.slot == NO_SLOT or row.log_dir == NO_LOG_DIR or broker_id in state.replicas:
            continue
        own_epoch = lost_roles.leader_epoch(topic.topic_id, row, receiver_epoch)
        if own_epoch is not None and (state.leader == LEADER_DURING_DELETE or state.leader_epoch > own_epoch):
            removed.append(row)
    return removed


def update_topic(
    topic: UpdateMetadataTopic,
    live: Set[int],
    changes: ImageChanges,
    configs: Configs,
    topics_to_delete: set[str],
    unapplied: UnappliedStates,
) -> None:
    """`topics_to_delete` are removed after their last replica here."""
    name = topic.topic_name
    if not is_legal(name):
        return
    own_id = changes.topic_id(name)
    if own_id is not None and topic.topic_id not in (NO_TOPIC_ID, own_id):
        if changes.is_hosted(name):
            # LeaderAndIsr is rejected too, until the directories are deleted.
            return
        changes.delete(name)
        own_id = None
    if any(state.leader == LEADER_DURING_DELETE for state in topic.partition_states):
        if own_id is not None and changes.is_hosted(name):
            topics_to_delete.add(name)
        else:
            changes.delete(name)
        return
    if own_id is None and topic.topic_id == NO_TOPIC_ID:
        return
    topics_to_delete.discard(name)
    for state in topic.partition_states:
        if is_partition_index(state.partition_index):
            _update_partition(topic, _on_live_brokers(state, live), changes, configs, unapplied)


def _on_live_brokers(state: UpdateMetadataPartition, live: Set[int]) -> UpdateMetadataPartition:
    """Without offline replicas of failed brokers: such a replica is online when its broker registers again."""
    if not state.offline_replicas:
        return state
    return replace(state, offline_replicas=tuple(each for each in state.offline_replicas if each in live))


def _update_partition(
    topic: UpdateMetadataTopic,
    state: UpdateMetadataPartition,
    changes: ImageChanges,
    configs: Configs,
    unapplied: UnappliedStates,
) -> None:
    name = topic.topic_name
    row = changes.row(name, state.partition_index)
    if row is not None and row.slot != NO_SLOT:
        # A start may read a state that a reassignment has written with the previous node of the topic: the replicas
        # change without another epoch. The offline replicas do as well.
        is_same = row.partition_epoch == state.zk_version and row.leader_epoch == state.leader_epoch
        is_unchanged = (row.replicas, row.offline) == (state.replicas, state.offline_replicas)
        if row.partition_epoch >= state.zk_version and (not is_same or is_unchanged):
            return
        newer = structs.replace(
            row,
            isr=state.isr,
            partition_epoch=state.zk_version,
            replicas=state.replicas,
            offline=state.offline_replicas,
        )
        if row.leader_epoch == state.leader_epoch:
            changes.put(name, topic.topic_id, newer)
        # A replica gets its role by LeaderAndIsr; an offline replica gets none.
        elif row.log_dir == NO_LOG_DIR and state.leader_epoch > row.leader_epoch:
            newer = structs.replace(newer, leader=state.leader, leader_epoch=state.leader_epoch)
            changes.put(name, topic.topic_id, newer)
        elif state.leader_epoch > row.leader_epoch:
            unapplied.note(topic, state)
        return
    changes.put(name, topic.topic_id, without_replica(state), configs.get(name, {}))


def forget_deleted(before: Mapping[str, Topic], present: Set[str], image: MetadataImage, changes: ImageChanges) -> None:
    """Delete the topics of `before` that are not `present` in the store: their deletion may have been announced by a
    failed controller, or to an earlier registration. A topic with a replica here stays until its StopReplica.
    """
    for name in sorted(before.keys() - present):
        topic = image.topics.get(name)
        if topic is not None and topic.id == before[name].id and not changes.is_hosted(name):
            changes.delete(name)
