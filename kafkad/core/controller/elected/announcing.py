"""A controller that hosts nothing itself: it tells brokers what changes, and deletes topics when all have done so."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkad.core.controller import deltas
from kafkad.core.controller.controller import Controller
from kafkad.core.controller.elected.announcements import Announcer, Request, Rows
from kafkad.core.controller.elected.partition_events import UnavailableReplicas, add_lines, elected_partitions
from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.features import lacking
from kafkad.core.controller.image import Broker, MetadataImage, Partition, Topic
from kafkad.core.controller.partition_rows import in_state
from kafkad.core.controller.settings import ControllerSettings
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.store.storing import stored_or_refused
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.topics.pending_deletion import PendingDeletion
from kafkad.core.controller.topics.placement import Placement, SlotTable
from kafkad.core.controller.topics.topics import NewTopic
from kafkad.core.election import LeaderElectionStrategy
from kafkad.core.partition_lines import PartitionLine, PartitionLines
from kafkad.core.types import TopicPartition

NOWHERE = -2
"""The id of the broker for which this controller has partitions: none."""


@dataclass(frozen=True, slots=True)
class _Deletion:
    """A topic that is being deleted: each broker's remaining partitions, and the brokers that failed to delete."""

    topic: Topic
    replicas: dict[int, list[int]]
    refused: set[int] = field(default_factory=set)


class AnnouncingController(Controller):
    """Whatever it stores is fenced by its term; `take_requests` says which brokers are to be told what."""

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
        self._dying: dict[str, _Deletion] = {}
        self._shutting_down: frozenset[int] = frozenset()
        """They are not elected, and are no in-sync replicas any more where others are."""
        self._removed: dict[TopicPartition, dict[int, int]] = {}
        """Replicas that reassignments have removed in this term: the leader epoch in StopReplica by broker."""

    def take_requests(self) -> list[tuple[int, Request]]:
        """(broker, request) in the order in which each broker is to get them; empties the list."""
        self._announce()
        taken, self._requests = self._requests, []
        return taken

    def _announce(self) -> None:
        for delta in self.take_deltas():
            for change in delta.changes:
                match change:
                    case deltas.TopicCreated(topic):
                        self._tell([(topic, topic.partitions)], is_new=True)
                    case deltas.PartitionsAdded(name, partitions):
                        self._tell([(self.image.topics[name], partitions)], is_new=True)
                    case deltas.PartitionsChanged(name, partitions):
                        if name in self.image.topics:
                            self._tell([(self.image.topics[name], partitions)], is_new=False)
                    case _:
                        continue

    def to_be_made(self, internal: NewTopic) -> NewTopic:
        """As configured, or not at all while there are too few brokers (KIP-115): they may just not have come yet."""
        return internal

    def without_support(self, levels: Mapping[str, int]) -> list[int]:
        brokers = self._announcer.brokers
        return sorted(each for each, broker in brokers.items() if lacking(broker.features, levels))

    def _tell(self, rows: Rows, *, is_new: bool) -> None:
        self._requests += self._announcer.roles(rows, is_new=is_new)
        self._requests += self._announcer.metadata(rows)

    def announce_all(self, brokers: Sequence[int] | None = None) -> None:
        """To these brokers, or all: the live brokers, then the roles, then the states of all partitions."""
        rows = [(topic, topic.partitions) for topic in self.image.topics.values()]
        self._requests += self._announcer.metadata([], brokers)
        self._requests += self._announcer.roles(rows, is_new=False, only=brokers)
        self._requests += self._announcer.metadata(rows, brokers)
        for name, deletion in self._dying.items():
            wanted = {each: parts for each, parts in deletion.replicas.items() if brokers is None or each in brokers}
            # Whoever registers again may have been away when the deletion began, and still know the topic.
            self._requests += self._announcer.deleted(deletion.topic, brokers)
            self._requests += self._announcer.deletions(name, wanted)
        for broker in self._announcer.brokers if brokers is None else brokers:
            removed = {at: epochs[broker] for at, epochs in self._removed.items() if broker in epochs}
            self._requests += self._announcer.removals(broker, removed)

    def _set_brokers(self, registered: Mapping[int, Broker], gone: frozenset[int]) -> None:
        self._announcer = replace(self._announcer, brokers=dict(registered), gone=gone)
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
        return UnavailableReplicas(announcer.live.keys(), announcer.gone, self._shutting_down, announcer.offline)

    def take_unclean_elections(self) -> int:
        """How many there were since."""
        taken, self._unclean_elections = self._unclean_elections, 0
        return taken

    def take_lines(self) -> list[PartitionLine]:
        """What the log says of elections since."""
        return self._lines.take()

    def _change_states(self, following: Callable[[TopicPartition, Partition], PartitionState | None]) -> None:
        states: dict[TopicPartition, PartitionState] = {}
        changes = []
        for topic in self.image.topics.values():
            changed = []
            for row in topic.partitions:
                at = TopicPartition(topic.name, row.index)
                state = following(at, row)
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
        """Record the deletions and hide the topics; the nodes go when every replica's broker has deleted it."""
        if not names:
            return
        self._announce()
        topics = [self.image.topics[name] for name in names]
        with stored_or_refused():
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
        self._dying[topic.name] = _Deletion(topic, replicas)
        self.deletions[topic.name] = PendingDeletion(len(topic.partitions), set(replicas))
        self._requests += self._announcer.deleted(topic)
        self._requests += self._announcer.deletions(topic.name, replicas)

    def resume_deletion(self, topic: Topic) -> None:
        """A deletion that an earlier term has begun: some broker may not have heard of it."""
        self._begin_deletion(topic)
        if not topic.partitions:
            self.partitions_deleted(topic.name, ())

    def deletion_failed(self, name: str, broker: int) -> None:
        """The broker could not delete its replicas of the topic."""
        if name in self._dying and broker in self._dying[name].replicas:
            self._dying[name].refused.add(broker)

    @property
    def has_deletions_to_retry(self) -> bool:
        return any(deletion.refused for deletion in self._dying.values())

    def retry_deletions(self) -> dict[int, list[str]]:
        """Who could not delete its replicas may be able to by now, and says nothing by itself. The topics by broker."""
        asked: dict[int, list[str]] = {}
        for name, deletion in self._dying.items():
            again = {broker: deletion.replicas[broker] for broker in deletion.refused}
            deletion.refused.clear()
            self._requests += self._announcer.deletions(name, again)
            for broker in again:
                asked.setdefault(broker, []).append(name)
        return asked

    def replica_deleted(self, name: str, broker: int) -> None:
        """The broker has deleted its replicas of the topic."""
        if name in self._dying:
            self._dying[name].replicas.pop(broker, None)
            self._dying[name].refused.discard(broker)
        if name in self.deletions and self.partitions_deleted(name, [broker]):
            self._dying.pop(name, None)
            self.finish_deletions()
