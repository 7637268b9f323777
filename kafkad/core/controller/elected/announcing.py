"""A controller that hosts no partitions: it sends changes to brokers, and deletes topics after all have done so."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkad.core.controller import deltas
from kafkad.core.controller.controller import Controller
from kafkad.core.controller.elected.announcements import Announcer, Request, Rows
from kafkad.core.controller.elected.partition_events import UnavailableReplicas, add_lines, elected_partitions
from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.features import unsupported_features
from kafkad.core.controller.image import Broker, MetadataImage, Partition, Topic
from kafkad.core.controller.partition_rows import in_state
from kafkad.core.controller.settings import ControllerSettings
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.store.storing import reject_without_space
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.topics.pending_deletion import PendingDeletion
from kafkad.core.controller.topics.placement import Placement, SlotTable
from kafkad.core.controller.topics.topics import NewTopic
from kafkad.core.election import LeaderElectionStrategy
from kafkad.core.partition_lines import PartitionLine, PartitionLines
from kafkad.core.types import TopicPartition

NO_LOCAL_BROKER = -2
"""A broker id without partitions: this controller places partitions on no broker of its own."""


@dataclass(frozen=True, slots=True)
class _Deletion:
    """A topic that is being deleted: each broker's remaining partitions, and the brokers that failed to delete."""

    topic: Topic
    replicas: dict[int, list[int]]
    failed: set[int] = field(default_factory=set)


class AnnouncingController(Controller):
    """The term guards each write; `take_requests` returns the requests to the brokers."""

    def __init__(
        self,
        *,
        settings: ControllerSettings,
        tree: MetadataTree,
        election: LeaderElectionStrategy,
        image: MetadataImage,
        announcer: Announcer,
    ) -> None:
        self._unclean_elections = 0
        self._lines = PartitionLines()
        super().__init__(
            settings=settings,
            tree=tree,
            election=election,
            image=image,
            placement=Placement(SlotTable(), 1, (0,)),
            deletions={},
        )
        self.id = announcer.controller_id
        self._announcer = announcer
        self._requests: list[tuple[int, Request]] = []
        self._topics_to_delete: dict[str, _Deletion] = {}
        self._shutting_down: frozenset[int] = frozenset()
        """Brokers in a controlled shutdown: not elected, and removed from each ISR with other members."""
        self._removed: dict[TopicPartition, dict[int, int]] = {}
        """The leader epochs in StopReplica for replicas that this term's reassignments removed, by broker."""

    def take_requests(self) -> list[tuple[int, Request]]:
        """(broker, request) in the order in which each broker has to get them; empties the list."""
        self._announce()
        taken, self._requests = self._requests, []
        return taken

    def _announce(self) -> None:
        for delta in self.take_deltas():
            for change in delta.changes:
                match change:
                    case deltas.TopicCreated(topic):
                        self._announce_rows([(topic, topic.partitions)], is_new=True)
                    case deltas.PartitionsAdded(name, partitions):
                        self._announce_rows([(self.image.topics[name], partitions)], is_new=True)
                    case deltas.PartitionsChanged(name, partitions):
                        if name in self.image.topics:
                            self._announce_rows([(self.image.topics[name], partitions)], is_new=False)
                    case _:
                        continue

    def adapt_internal_topic(self, internal: NewTopic) -> NewTopic:
        """As configured: with too few brokers the creation fails, until more brokers register (KIP-115)."""
        return internal

    def without_support(self, levels: Mapping[str, int]) -> list[int]:
        brokers = self._announcer.brokers
        return sorted(each for each, broker in brokers.items() if unsupported_features(broker.features, levels))

    def _announce_rows(self, rows: Rows, *, is_new: bool) -> None:
        self._requests += self._announcer.roles(rows, is_new=is_new)
        self._requests += self._announcer.metadata(rows)

    def announce_all(self, brokers: Sequence[int] | None = None) -> None:
        """Send the live brokers, then the roles, then the states of all partitions to these brokers, or to all."""
        rows = [(topic, topic.partitions) for topic in self.image.topics.values()]
        self._requests += self._announcer.metadata([], brokers)
        self._requests += self._announcer.roles(rows, is_new=False, only=brokers)
        self._requests += self._announcer.metadata(rows, brokers)
        for name, deletion in self._topics_to_delete.items():
            remaining = {each: at for each, at in deletion.replicas.items() if brokers is None or each in brokers}
            # A broker that registers again may have missed the deletion, and still have the topic.
            self._requests += self._announcer.deleted(deletion.topic, brokers)
            self._requests += self._announcer.deletions(name, remaining)
        for broker in self._announcer.brokers if brokers is None else brokers:
            removed = {at: epochs[broker] for at, epochs in self._removed.items() if broker in epochs}
            self._requests += self._announcer.removals(broker, removed)

    def _set_brokers(self, registered: Mapping[int, Broker], unreachable: frozenset[int]) -> None:
        self._announcer = replace(self._announcer, brokers=dict(registered), unreachable=unreachable)
        live = self._announcer.live
        self._publish((deltas.BrokersChanged(tuple(live[each] for each in sorted(live))),))

    def _electorate(self) -> Electorate:
        live = self.image.brokers
        return Electorate(self._election, live, self._shutting_down.intersection(live), self._announcer.offline)

    def _publish(self, changes: tuple[deltas.Change, ...]) -> None:
        unavailable = self._unavailable()
        for elected in elected_partitions(self.image, changes):
            self._unclean_elections += elected.is_unclean
            add_lines(self._lines, elected, unavailable)
        super()._publish(changes)

    def _unavailable(self) -> UnavailableReplicas:
        announcer = self._announcer
        return UnavailableReplicas(announcer.live.keys(), announcer.unreachable, self._shutting_down, announcer.offline)

    def take_unclean_elections(self) -> int:
        """The number of unclean elections since the last call."""
        taken, self._unclean_elections = self._unclean_elections, 0
        return taken

    def take_lines(self) -> list[PartitionLine]:
        """The log lines about elections since the last call."""
        return self._lines.take()

    def _change_states(self, next_state: Callable[[TopicPartition, Partition], PartitionState | None]) -> None:
        states: dict[TopicPartition, PartitionState] = {}
        changes = []
        for topic in self.image.topics.values():
            changed = []
            for row in topic.partitions:
                at = TopicPartition(topic.name, row.index)
                state = next_state(at, row)
                if state is not None:
                    states[at] = state
                    changed.append(in_state(row, state))
            if changed:
                changes.append(deltas.PartitionsChanged(topic.name, tuple(changed)))
        if changes:
            self._tree.set_states(states)
            self._publish(tuple(changes))

    # Deletion.

    def delete_topics(self, names: Sequence[str]) -> None:
        """Record the deletions and hide the topics; the nodes are removed after all brokers deleted the replicas."""
        if not names:
            return
        self._announce()
        topics = [self.image.topics[name] for name in names]
        with reject_without_space():
            self._tree.record_deletions([(topic.name, topic.id, len(topic.partitions)) for topic in topics])
        for topic in topics:
            self._begin_deletion(topic)
            self.collisions.remove(topic.name)
            for row in topic.partitions:
                self._removed.pop(TopicPartition(topic.name, row.index), None)
        self._publish(tuple(deltas.TopicDeleted(topic.name, topic.id, ()) for topic in topics))

    def _begin_deletion(self, topic: Topic) -> None:
        replicas: dict[int, list[int]] = {}
        for row in topic.partitions:
            for broker in row.replicas:
                replicas.setdefault(broker, []).append(row.index)
        self._topics_to_delete[topic.name] = _Deletion(topic, replicas)
        self.deletions[topic.name] = PendingDeletion(len(topic.partitions), set(replicas))
        self._requests += self._announcer.deleted(topic)
        self._requests += self._announcer.deletions(topic.name, replicas)

    def resume_deletion(self, topic: Topic) -> None:
        """Repeat a deletion that an earlier term began: some brokers may not have received it."""
        self._begin_deletion(topic)
        if not topic.partitions:
            self.partitions_deleted(topic.name, ())

    def deletion_failed(self, name: str, broker: int) -> None:
        """The broker could not delete its replicas of the topic."""
        if name in self._topics_to_delete and broker in self._topics_to_delete[name].replicas:
            self._topics_to_delete[name].failed.add(broker)

    @property
    def has_deletions_to_retry(self) -> bool:
        return any(deletion.failed for deletion in self._topics_to_delete.values())

    def retry_deletions(self) -> dict[int, list[str]]:
        """Repeat the failed deletions, because brokers do not repeat them. Returns the topics by broker."""
        retried: dict[int, list[str]] = {}
        for name, deletion in self._topics_to_delete.items():
            again = {broker: deletion.replicas[broker] for broker in deletion.failed}
            deletion.failed.clear()
            self._requests += self._announcer.deletions(name, again)
            for broker in again:
                retried.setdefault(broker, []).append(name)
        return retried

    def replica_deleted(self, name: str, broker: int) -> None:
        """The broker has deleted its replicas of the topic."""
        if name in self._topics_to_delete:
            self._topics_to_delete[name].replicas.pop(broker, None)
            self._topics_to_delete[name].failed.discard(broker)
        if name in self.deletions and self.partitions_deleted(name, [broker]):
            self._topics_to_delete.pop(name, None)
            self.finish_deletions()
