"""A controller that hosts no partitions: it sends changes to brokers, and deletes topics after all have done so."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from kafkad.core.controller import deltas
from kafkad.core.controller.controller import Controller, Deletion
from kafkad.core.controller.elected.announcements import Announcer, Request, Rows
from kafkad.core.controller.elected.partition_events import UnavailableReplicas, add_lines, elected_partitions
from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.features import unsupported_features
from kafkad.core.controller.image import Broker, MetadataImage, Partition, Topic
from kafkad.core.controller.partition_rows import in_state
from kafkad.core.controller.settings import ControllerSettings, LocalSpace
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.store.storing import reject_without_space
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.election import LeaderElectionStrategy
from kafkad.core.partition_lines import PartitionLine, PartitionLines
from kafkad.core.types import TopicPartition


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
        space: LocalSpace | None = None,
    ) -> None:
        """`space` is that of the only broker."""
        self._unclean_elections = 0
        self._lines = PartitionLines()
        super().__init__(
            broker_id=announcer.controller_id, settings=settings, tree=tree, election=election, image=image
        )
        self._announcer = announcer
        self._space = space
        self._requests: list[tuple[int, Request]] = []
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
            new: list[tuple[Topic, Sequence[Partition]]] = []
            changed: list[tuple[Topic, Sequence[Partition]]] = []
            for change in delta.changes:
                match change:
                    case deltas.TopicCreated(topic):
                        new.append((topic, topic.partitions))
                    case deltas.PartitionsAdded(name, partitions):
                        new.append((self.image.topics[name], partitions))
                    case deltas.PartitionsChanged(name, partitions) if name in self.image.topics:
                        changed.append((self.image.topics[name], partitions))
                    case _:
                        continue
            if new:
                self._announce_rows(new, is_new=True)
            if changed:
                self._announce_rows(changed, is_new=False)

    def require_space(self, count: int) -> None:
        if self._space is not None:
            self._space.require_space(count)

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
        # A broker that registers again may have missed the deletion, and still have the topic.
        self._announce_deletions(self.deletions.values(), brokers)
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
        self._begin_deletions(topics)
        for topic in topics:
            self.collisions.remove(topic.name)
            for row in topic.partitions:
                self._removed.pop(TopicPartition(topic.name, row.index), None)
        self._publish(tuple(deltas.TopicDeleted(topic.name, topic.id, ()) for topic in topics))

    def _begin_deletions(self, topics: Iterable[Topic]) -> None:
        begun = [Deletion(topic, _replicas_of(topic)) for topic in topics]
        self.deletions |= {deletion.topic.name: deletion for deletion in begun}
        self._announce_deletions(begun)

    def _announce_deletions(self, deletions: Collection[Deletion], brokers: Sequence[int] | None = None) -> None:
        if deletions:
            self._requests += self._announcer.deleted([each.topic for each in deletions], brokers)
            self._request_deletions({each.topic.name: each.replicas for each in deletions}, brokers)

    def _request_deletions(
        self, replicas: Mapping[str, Mapping[int, Sequence[int]]], brokers: Sequence[int] | None = None
    ) -> None:
        """`replicas` are the partitions to delete by topic and broker."""
        by_broker: dict[int, dict[str, Sequence[int]]] = {}
        for name, of_topic in replicas.items():
            for broker, partitions in of_topic.items():
                if brokers is None or broker in brokers:
                    by_broker.setdefault(broker, {})[name] = partitions
        self._requests += self._announcer.deletions(by_broker)

    def resume_deletions(self, topics: Sequence[Topic]) -> None:
        """Repeat deletions that an earlier term began: some brokers may not have received them."""
        self._begin_deletions(topics)
        self._finish_deletions()

    def deletion_failed(self, name: str, broker: int) -> None:
        """The broker could not delete its replicas of the topic."""
        if name in self.deletions and broker in self.deletions[name].replicas:
            self.deletions[name].failed.add(broker)

    @property
    def has_deletions_to_retry(self) -> bool:
        return any(deletion.failed for deletion in self.deletions.values())

    def retry_deletions(self) -> dict[int, list[str]]:
        """Repeat the failed deletions, because brokers do not repeat them. Returns the topics by broker."""
        retried: dict[int, list[str]] = {}
        again: dict[str, dict[int, Sequence[int]]] = {}
        for name, deletion in self.deletions.items():
            again[name] = {broker: deletion.replicas[broker] for broker in deletion.failed}
            deletion.failed.clear()
            for broker in again[name]:
                retried.setdefault(broker, []).append(name)
        self._request_deletions(again)
        return retried

    def replicas_deleted(self, names: Iterable[str], broker: int) -> None:
        """The broker has deleted its replicas of these topics."""
        for name in names:
            if name in self.deletions:
                self.deletions[name].replicas.pop(broker, None)
                self.deletions[name].failed.discard(broker)
        self._finish_deletions()

    def _finish_deletions(self) -> None:
        """Remove the nodes of topics without replicas, in one commit, because each commit waits for the disk."""
        finished = [deletion.topic for deletion in self.deletions.values() if not deletion.replicas]
        if finished:
            self._tree.finish_deletions([(topic.name, len(topic.partitions)) for topic in finished])
            for topic in finished:
                del self.deletions[topic.name]


def _replicas_of(topic: Topic) -> dict[int, list[int]]:
    replicas: dict[int, list[int]] = {}
    for row in topic.partitions:
        for broker in row.replicas:
            replicas.setdefault(broker, []).append(row.index)
    return replicas
