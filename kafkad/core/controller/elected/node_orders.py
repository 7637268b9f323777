"""What old tools order by a node instead of a request: elections of preferred replicas, reassignments, partitions,
deletions.

Kafka's tools up to 2.x write /admin/preferred_replica_election and /admin/reassign_partitions, and look there whether
it is done. As with Apache Kafka 3.9 the first is removed when the elections were tried. The second keeps what is under
way, and is removed with the last partition of it; a partition that can't be moved leaves it at once. The order of a
deletion (/admin/delete_topics/<topic>) is taken up at the beginning of a term, and removed where delete.topic.enable is
false.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import MsgspecError

from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.elected.topic_nodes import TopicNodes
from kafkad.core.controller.elections import ElectionType
from kafkad.core.controller.reassignments import under_way
from kafkad.core.controller.startup.term import Term
from kafkad.core.controller.store import nodes
from kafkad.core.controller.topics.assignment import Assignment
from kafkad.core.coordination_store import Change, CoordinationStore, Delete, NoNode, NotEmpty, SetData
from kafkad.core.types import TopicPartition


def refuse_deletions(store: CoordinationStore, term: Term) -> dict[str, str]:
    """Remove the orders of deletions that nobody has taken up, by path with the reason; those that a request has begun
    say more than their name, and go on.
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
    """Those of one term. `say` gets lines about a node, by its path."""

    def __init__(
        self,
        controller: ElectedController,
        store: CoordinationStore,
        term: Term,
        say: Callable[[Mapping[str, str]], None],
    ) -> None:
        self.topics = TopicNodes(controller, store)
        self._controller = controller
        self._store = store
        self._term = term
        self._say = say
        self._moving: dict[TopicPartition, Assignment] = {}
        """What the node says of partitions that are on their way."""

    def carry_out(self) -> None:
        """At the beginning of a term, and when one of the nodes was written; watches for the next."""
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
            self._say({nodes.PREFERRED_ELECTION: f"{nodes.PREFERRED_ELECTION} in ZooKeeper can't be read: {error}"})
            ordered = ()
        wanted = dict.fromkeys(TopicPartition(each.topic, each.partition) for each in ordered)
        if wanted:
            self._controller.elect_leaders(wanted, ElectionType.PREFERRED)
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
            self._say({nodes.REASSIGNMENT: f"{nodes.REASSIGNMENT} in ZooKeeper is left alone: {error}"})
            return
        wanted = {TopicPartition(each.topic, each.partition): each.replicas for each in ordered}
        if wanted and wanted == self._moving:
            return
        results = self._controller.reassign(list(wanted.items()))
        failed = {at: error for at, error in zip(wanted, results, strict=True) if error is not None}
        if failed:
            texts = ", ".join(f"{at.topic}-{at.partition}: {error.message}" for at, error in failed.items())
            self._say({nodes.REASSIGNMENT: f"not reassigned as {nodes.REASSIGNMENT} in ZooKeeper says: {texts}"})
        self._moving = wanted
        self._keep(self._under_way())

    def drop(self) -> None:
        """Take from the node what has arrived, or was cancelled or replaced by a request."""
        if self._moving and (left := self._under_way()) != self._moving:
            self._keep(left)

    def _under_way(self) -> dict[TopicPartition, Assignment]:
        moving = under_way(self._controller.image, self._moving)
        return {at: to for at, to in self._moving.items() if at in moving and moving[at].target == to}

    def _keep(self, left: dict[TopicPartition, Assignment]) -> None:
        if left:
            rows = tuple(
                nodes.ReassignedPartition(topic=at.topic, partition=at.partition, replicas=to)
                for at, to in left.items()
            )
            data = nodes.encode(nodes.ReassignmentOrder(partitions=rows))
            if left != self._moving:
                self._write(SetData(nodes.REASSIGNMENT, data))
        else:
            self._write(Delete(nodes.REASSIGNMENT))
        self._moving = left

    def _write(self, change: Change) -> None:
        # Whoever wrote the node may have removed it since, or made nodes below it.
        with suppress(NoNode, NotEmpty):
            self._store.transaction([self._term.guard, change])
