"""Carries out what others write into nodes for the controller: commands of old tools, and notifications of brokers.

Kafka's tools up to 2.x write /admin/preferred_replica_election and /admin/reassign_partitions, and poll them for
completion. As Apache Kafka 3.9 does, the controller removes the first after the elections. The second keeps the
partitions in progress and is removed with the last of them; a partition that can't be reassigned is removed at once. A
deletion (/admin/delete_topics/<topic>) is carried out at the beginning of a term, and removed if delete.topic.enable is
false.

Tools add partitions in topic nodes (`kafka-topics.sh --zookeeper --alter --partitions`), and the controller creates
them (PartitionModifications). As with Apache Kafka, changes to existing partitions apply from the next term on. A
repaired node of a topic brings the topic back.

Brokers notify the controller with sequential nodes, which the controller removes: failed log directories, and in-sync
replicas that leaders of Apache Kafka before 2.7 and administrators write into partition states.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from msgspec import MsgspecError

from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.elections import ElectionType
from kafkad.core.controller.reassignments import under_way
from kafkad.core.controller.startup.term import Term
from kafkad.core.controller.store import nodes
from kafkad.core.controller.store.stored_metadata import PartitionState, stored_state
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.store.unreadable_nodes import UnreadableNodes
from kafkad.core.controller.topics.assignment import Assignment
from kafkad.core.controller.topics.names import is_legal
from kafkad.core.coordination_store import Change, CoordinationStore, Delete, NoNode, NotEmpty, SetData
from kafkad.core.types import TopicPartition


class TopicNodes:
    """The topic nodes of one term. Reading the first topics of the term set their watches."""

    def __init__(self, controller: ElectedController, store: CoordinationStore) -> None:
        self._controller = controller
        self._store = store
        self._watched = controller.image.topics.keys() | controller.unreadable_topics

    def have_grown(self, changed: str) -> bool:
        """Whether a topic node has more partitions than the image. `changed` is the path of a fired watch. The watch of
        a topic is set again; for any other path, watches are set on topics created since.
        """
        topics, unreadable = self._controller.image.topics, self._controller.unreadable_topics
        name = changed.removeprefix(f"{nodes.TOPICS}/")
        if name == changed:
            self._watched &= topics.keys() | unreadable
            names = sorted((topics.keys() | unreadable) - self._watched)
        else:
            # This topic only: thousands may be deleted or reassigned at once.
            self._watched.discard(name)
            names = [name] if name in topics or name in unreadable else []
        self._watched.update(names)
        read = self._store.get_many([nodes.topic_path(name) for name in names], watch=True)
        return any(
            node is not None and _partitions_in(node.data) > (len(topics[name].partitions) if name in topics else 0)
            for name, node in zip(names, read, strict=True)
        )


def _partitions_in(data: bytes) -> int:
    """0 for an unreadable node: the topic stays as it is until the next term."""
    try:
        return len(nodes.read_topic(data).partitions)
    except (MsgspecError, ValueError, RecursionError):
        return 0


def take_log_dir_events(tree: MetadataTree) -> set[int]:
    """The brokers that reported failed log directories since the last call; watches for more."""
    return {event.broker for event in tree.take(nodes.LOG_DIR_EVENTS, nodes.decode_log_dir_event)}


def take_isr_changes(tree: MetadataTree) -> list[TopicPartition]:
    """The partitions named since the last call; watches for more."""
    events = tree.take(nodes.ISR_CHANGES, nodes.decode_partitions_named)
    named = dict.fromkeys(TopicPartition(each.topic, each.partition) for event in events for each in event.partitions)
    # Any client can write these nodes: a topic name may be invalid in a path.
    return [at for at in named if is_legal(at.topic)]


def stored_states(
    store: CoordinationStore, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionState]:
    """The states that exist and can be read."""
    paths = [nodes.state_path(at.topic, at.partition) for at in partitions]
    states, unreadable = {}, UnreadableNodes()
    for at, path, node in zip(partitions, paths, store.get_many(paths), strict=True):
        state = None if node is None else unreadable.read(path, node.data, nodes.read_state)
        if node is not None and state is not None:
            states[at] = stored_state(state, node.version)
    return states


def reject_deletions(store: CoordinationStore, term: Term) -> dict[str, str]:
    """Remove the deletion nodes that tools wrote; returns the reason by path. Nodes of DeleteTopics requests, which
    have content, stay.
    """
    paths = [nodes.deletion_path(name) for name in store.children(nodes.DELETIONS)]
    found = zip(paths, store.get_many(paths), strict=True)
    orders = [path for path, node in found if node is not None and not _was_requested(node.data)]
    store.pipelined([Delete(path) for path in orders], guard=term.guard)
    return dict.fromkeys(orders, "delete.topic.enable is false")


def _was_requested(data: bytes) -> bool:
    try:
        nodes.decode_deletion(data)
    except (MsgspecError, RecursionError):
        return False
    return True


class NodeOrders:
    """The commands in nodes during one term. `report` logs lines about nodes, by path."""

    def __init__(
        self,
        controller: ElectedController,
        store: CoordinationStore,
        term: Term,
        report: Callable[[Mapping[str, str]], None],
    ) -> None:
        self.topics = TopicNodes(controller, store)
        self._controller = controller
        self._store = store
        self._term = term
        self._report = report
        self._moving: dict[TopicPartition, Assignment] = {}
        """The reassignments in progress that the node lists."""

    def carry_out(self) -> None:
        """Called at the beginning of a term, and when one of the nodes was written; sets the next watches."""
        self._elect()
        self._reassign()

    def _load(self, path: str) -> bytes | None:
        self._store.exists(path, watch=True)
        (node,) = self._store.get_many([path])
        return None if node is None else node.data

    def _elect(self) -> None:
        data = self._load(nodes.PREFERRED_ELECTION)
        if data is None:
            return
        try:
            ordered = nodes.decode_partitions_named(data).partitions
        except (MsgspecError, RecursionError) as error:
            self._report({nodes.PREFERRED_ELECTION: f"{nodes.PREFERRED_ELECTION} in ZooKeeper can't be read: {error}"})
            ordered = ()
        requested = dict.fromkeys(TopicPartition(each.topic, each.partition) for each in ordered)
        if requested:
            self._controller.elect_leaders(requested, ElectionType.PREFERRED)
        self._write(Delete(nodes.PREFERRED_ELECTION))

    def _reassign(self) -> None:
        data = self._load(nodes.REASSIGNMENT)
        if data is None:
            self._moving = {}
            return
        try:
            ordered = nodes.decode_reassignment_order(data).partitions
        except (MsgspecError, RecursionError) as error:
            self._moving = {}
            self._report({nodes.REASSIGNMENT: f"{nodes.REASSIGNMENT} in ZooKeeper can't be read: {error}"})
            return
        requested = {TopicPartition(each.topic, each.partition): each.replicas for each in ordered}
        if requested and requested == self._moving:
            return
        results = self._controller.reassign(list(requested.items()))
        failed = {at: error for at, error in zip(requested, results, strict=True) if error is not None}
        if failed:
            texts = ", ".join(f"{at.topic}-{at.partition}: {error.message}" for at, error in failed.items())
            self._report({nodes.REASSIGNMENT: f"reassignments of {nodes.REASSIGNMENT} in ZooKeeper failed: {texts}"})
        self._moving = requested
        self._keep(self._under_way())

    def drop(self) -> None:
        """Remove completed, cancelled and replaced reassignments from the node."""
        if self._moving and (remaining := self._under_way()) != self._moving:
            self._keep(remaining)

    def _under_way(self) -> dict[TopicPartition, Assignment]:
        moving = under_way(self._controller.image, self._moving)
        return {at: to for at, to in self._moving.items() if at in moving and moving[at].target == to}

    def _keep(self, remaining: dict[TopicPartition, Assignment]) -> None:
        if remaining:
            rows = tuple(
                nodes.ReassignedPartition(topic=at.topic, partition=at.partition, replicas=to)
                for at, to in remaining.items()
            )
            data = nodes.encode(nodes.ReassignmentOrder(partitions=rows))
            if remaining != self._moving:
                self._write(SetData(nodes.REASSIGNMENT, data))
        else:
            self._write(Delete(nodes.REASSIGNMENT))
        self._moving = remaining

    def _write(self, change: Change) -> None:
        # The tool may have removed the node since, or created nodes below it.
        with suppress(NoNode, NotEmpty):
            self._store.transaction([self._term.guard, change])
