"""Begins a term: loads the metadata, elects leaders in place of failed ones, and announces both to all brokers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from uuid import UUID

from msgspec import MsgspecError, structs

from kafkad.core.controller.elected.announcements import Announcer
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.elected.node_orders import reject_deletions
from kafkad.core.controller.elected.partition_events import ElectedPartition
from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.image import NO_LEADER, MetadataImage, Partition, Topic
from kafkad.core.controller.partition_rows import make_partition
from kafkad.core.controller.settings import ControllerSettings, LocalSpace
from kafkad.core.controller.startup.repair import complete_states, identify
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.stored_metadata import PartitionState, StoredMetadata, StoredTopic
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.store.unreadable_nodes import UnreadableNodes
from kafkad.core.controller.topics.assignment import ReplicaAssignment
from kafkad.core.controller.topics.placement import NO_PLACE
from kafkad.core.coordination_store import CoordinationStore
from kafkad.core.election import LeaderElectionStrategy
from kafkad.core.types import NO_TOPIC_ID, TopicPartition


def controller_failover(
    store: CoordinationStore,
    tree: MetadataTree,
    *,
    settings: ControllerSettings,
    election: LeaderElectionStrategy,
    announcer: Announcer,
    cluster_id: str,
    new_topic_id: Callable[[], UUID],
    left_out: UnreadableNodes | None = None,
    space: LocalSpace | None = None,
) -> ElectedController:
    """Load the metadata, elect leaders in place of failed or restarted ones, and announce everything to all brokers.

    `left_out` gets the unreadable nodes: this term ignores their topics and partitions. `space` is that of the only
    broker.
    """
    unreadable = UnreadableNodes() if left_out is None else left_out
    stored = _load(store, tree, settings, unreadable)
    topics = identify(tree, stored.topics, new_topic_id)
    states = _complete(tree, topics, Electorate(election, announcer.live), announcer, settings)
    image = MetadataImage(
        version=1,
        cluster_id=cluster_id,
        brokers=announcer.live,
        topics={
            name: Topic(
                name=name,
                id=topic.id,
                configs=topic.configs,
                partitions=tuple(
                    _row(index, topic.assignment(index), states[TopicPartition(name, index)])
                    for index in range(len(topic.assignments))
                ),
            )
            for name, topic in topics.items()
        },
        names_by_id={topic.id: name for name, topic in topics.items()},
        broker_configs=stored.broker_configs,
        group_configs=stored.group_configs,
        controller_id=announcer.controller_id,
    )
    image = _with_features(image, tree, unreadable)
    controller = ElectedController(
        settings=settings, tree=tree, election=election, image=image, announcer=announcer, space=space
    )
    controller.unreadable_topics = frozenset(unreadable.topics)
    controller.begin(_elected(image, topics))
    _resume_deletions(controller, store, stored.deletions, unreadable)
    return controller


def _resume_deletions(
    controller: ElectedController, store: CoordinationStore, names: Iterable[str], unreadable: UnreadableNodes
) -> None:
    paths = {name: nodes.topic_path(name) for name in names}
    resumed: list[Topic] = []
    for (name, path), node in zip(paths.items(), store.get_many(list(paths.values())), strict=True):
        # The node was readable when all were loaded; another client may have written it since.
        found = unreadable.read(path, node.data, nodes.read_topic) if node is not None and node.data else None
        if path not in unreadable.reasons:
            resumed.append(_deleted_topic(name, found))
    controller.resume_deletions(resumed)


def _elected(image: MetadataImage, topics: Mapping[str, StoredTopic]) -> Iterator[ElectedPartition]:
    """The partitions with a higher leader epoch in the image than in the stored state."""
    for name, topic in topics.items():
        for row in image.topics[name].partitions:
            stored = topic.states.get(row.index)
            if stored is not None and stored.leader_epoch != row.leader_epoch:
                before = _row(row.index, topic.assignment(row.index), stored)
                yield ElectedPartition(TopicPartition(name, row.index), before, row)


def _load(
    store: CoordinationStore, tree: MetadataTree, settings: ControllerSettings, unreadable: UnreadableNodes
) -> StoredMetadata:
    if not settings.delete_topic_enable:
        unreadable.reasons |= reject_deletions(store, tree.term)
    return tree.load(unreadable)


def _complete(
    tree: MetadataTree,
    topics: Mapping[str, StoredTopic],
    electorate: Electorate,
    announcer: Announcer,
    settings: ControllerSettings,
) -> dict[TopicPartition, PartitionState]:
    # The directories of a single broker have been read before (`take_over`).
    registered = {} if settings.is_single else announcer.live
    return complete_states(
        *(tree, topics, {}, (), electorate, announcer.controller_id),
        registered,
        names_broker_epochs=settings.names_broker_epochs,
    )


def _with_features(image: MetadataImage, tree: MetadataTree, unreadable: UnreadableNodes) -> MetadataImage:
    """A new cluster has no finalized features, so that Apache Kafka's brokers on ZooKeeper can join."""
    try:
        features = tree.load_features()
    except (MsgspecError, RecursionError) as error:
        unreadable.reasons[nodes.FEATURES] = str(error)
        return image
    levels, epoch = ({}, tree.set_features({})) if features is None else features
    return replace(image, features=levels, features_epoch=epoch)


def _deleted_topic(name: str, found: nodes.TopicNode | None) -> Topic:
    """The topic with the data that the store still has."""
    if found is None:
        return Topic(name=name, id=NO_TOPIC_ID, partitions=(), configs={})
    none = PartitionState(leader=NO_LEADER, leader_epoch=0, isr=())
    return Topic(
        name=name,
        id=nodes.decode_id(found.topic_id) if found.topic_id else NO_TOPIC_ID,
        partitions=tuple(
            _row(index, ReplicaAssignment(found.partitions[str(index)]), none) for index in range(len(found.partitions))
        ),
        configs={},
    )


def _row(index: int, assignment: ReplicaAssignment, state: PartitionState) -> Partition:
    row = make_partition(index, NO_PLACE, assignment.replicas, state)
    return structs.replace(row, adding=assignment.adding, removing=assignment.removing)
