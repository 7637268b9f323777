"""The controller of a cluster in one term: the verbs of a single broker's controller, on partitions anywhere.

It hosts nothing itself. Whatever it stores is fenced by the term, and `take_requests` says which brokers are to be told
what. When a broker goes, it leaves every in-sync set but the last member's; when one comes, it is told everything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from kafkad.core.cluster.control_requests import (
    NO_BROKER_EPOCH,
    AlteredPartition,
    AlteredTopic,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from kafkad.core.controller import deltas
from kafkad.core.controller.controller import Controller, ControllerSettings, PendingDeletion
from kafkad.core.controller.elected.announcements import Announcer, Request, Rows
from kafkad.core.controller.elected.shutting_down import led_by_others, not_in_sync, partitions_of
from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.image import Broker, MetadataImage, Partition, Topic
from kafkad.core.controller.partition_rows import in_state, state_of
from kafkad.core.controller.store.storing import stored_or_refused
from kafkad.core.controller.store.tree import MetadataTree, PartitionState
from kafkad.core.controller.topics.placement import Placement, SlotTable
from kafkad.core.election import LeaderElectionStrategy
from kafkad.core.errors import ErrorCode
from kafkad.core.types import TopicPartition

NOWHERE = -2
"""The id of the broker for which this controller has partitions: none."""


class ElectedController(Controller):
    """Made by `taking_office`. Every verb raises the errors of the store: then the term may be over."""

    def __init__(
        self,
        *,
        settings: ControllerSettings,
        tree: MetadataTree,
        election: LeaderElectionStrategy,
        image: MetadataImage,
        announcer: Announcer,
    ) -> None:
        super().__init__(
            settings=settings,
            tree=tree,
            election=election,
            image=image,
            placement=Placement(SlotTable(), 1, (0,)),
            deletions={},
        )
        self._announcer = announcer
        self._requests: list[tuple[int, Request]] = []
        self._dying: dict[str, dict[int, list[int]]] = {}
        """Topics that are being deleted: which brokers still have which partitions."""
        self._shutting_down: frozenset[int] = frozenset()
        """They are not elected, and are no in-sync replicas any more where others are."""

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

    def _tell(self, rows: Rows, *, is_new: bool) -> None:
        self._requests += self._announcer.roles(rows, is_new=is_new)
        self._requests += self._announcer.metadata(rows)

    def begin(self) -> None:
        """Elect around brokers that went before the term, then tell all of them everything."""
        self._elect_around()
        self.take_deltas()
        self.tell_everything()

    def tell_everything(self, brokers: Sequence[int] | None = None) -> None:
        """To these brokers, or all: the live brokers, then the roles, then the states of all partitions."""
        rows = [(topic, topic.partitions) for topic in self.image.topics.values()]
        self._requests += self._announcer.metadata([], brokers)
        self._requests += self._announcer.roles(rows, is_new=False, only=brokers)
        self._requests += self._announcer.metadata(rows, brokers)
        for name, replicas in self._dying.items():
            wanted = {each: parts for each, parts in replicas.items() if brokers is None or each in brokers}
            self._requests += self._announcer.deletions(name, wanted)

    # Brokers.

    def brokers_changed(self, registered: Mapping[int, Broker], gone: frozenset[int] = frozenset()) -> None:
        """These are registered now; some are `gone` although their sessions live. A new epoch: it has been away."""
        before = self._announcer.brokers
        new = [each for each, at in registered.items() if each not in before or before[each].epoch != at.epoch]
        staying = {each: broker for each, broker in registered.items() if each not in new}
        self._shutting_down &= staying.keys()
        has_changed = staying.keys() - gone != self.image.brokers.keys()
        if has_changed:
            self._set_brokers(staying, gone)
            self._elect_around()
        if new:
            self._announce()
            self._set_brokers(registered, gone)
            self._requests += self._announcer.metadata([], staying)
            self.tell_everything(new)
            self._elect_around()
        elif has_changed:
            self._announce()
            self._requests += self._announcer.metadata([])

    def _set_brokers(self, registered: Mapping[int, Broker], gone: frozenset[int]) -> None:
        self._announcer = replace(self._announcer, brokers=dict(registered), gone=gone)
        live = self._announcer.live
        self._publish((deltas.BrokersChanged(tuple(live[each] for each in sorted(live))),))

    def _elect_around(self) -> None:
        electorate = self._electorate()
        self._change_states(lambda at, row: self._after_brokers(electorate, at, row))

    def _after_brokers(self, electorate: Electorate, at: TopicPartition, row: Partition) -> PartitionState | None:
        state = state_of(row)
        moved = electorate.next_state(at, row.replicas, state)
        if moved is not None:
            return moved
        live = self.image.brokers
        kept = tuple(replica for replica in state.isr if replica in live)
        if state.leader not in live or kept == state.isr or not kept:
            return None
        return PartitionState(
            leader=state.leader,
            leader_epoch=state.leader_epoch + 1,
            isr=kept,
            partition_epoch=state.partition_epoch,
        )

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

    def controlled_shutdown(self, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        """A broker is about to stop: others lead in its place, and it leaves the in-sync replicas where others are.

        It may ask again: what it still leads is in the answer.
        """
        broker = self.image.brokers.get(request.broker_id)
        if broker is None:
            return ControlledShutdownResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE)
        if request.broker_epoch != NO_BROKER_EPOCH and request.broker_epoch < broker.epoch:
            return ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        self._announce()
        self._shutting_down |= {broker.id}
        electorate = self._electorate()
        self._change_states(lambda at, row: led_by_others(electorate, broker.id, at, row))
        self._announce()
        self._change_states(lambda _at, row: not_in_sync(broker.id, row))
        self._tell_of_the_rest(broker.id)
        followed, remaining = partitions_of(broker.id, self.image.topics.values())
        self._requests += self._announcer.stops(broker.id, followed)
        rows = tuple(RemainingPartition(topic_name=at.topic, partition_index=at.partition) for at in remaining)
        return ControlledShutdownResponse(error_code=ErrorCode.NONE, remaining_partitions=rows)

    def _tell_of_the_rest(self, leaving: int) -> None:
        """The broker that leaves gets no role any more."""
        others = self._announcer.brokers.keys() - {leaving}
        for delta in self.take_deltas():
            for change in delta.changes:
                if isinstance(change, deltas.PartitionsChanged):
                    rows = [(self.image.topics[change.name], change.partitions)]
                    self._requests += self._announcer.roles(rows, is_new=False, only=others)
                    self._requests += self._announcer.metadata(rows)

    def _electorate(self) -> Electorate:
        return Electorate(self._election, self.image.brokers, self._shutting_down)

    # In-sync replicas.

    def alter_partitions(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """AlterPartition: what leaders want their in-sync replicas to be."""
        sender = self.image.brokers.get(request.broker_id)
        if sender is None or sender.epoch != request.broker_epoch:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        self._announce()
        states: dict[TopicPartition, PartitionState] = {}
        refusals: dict[tuple[UUID, int], ErrorCode] = {}
        for wanted in request.topics:
            topic = self.image.topic_by_id(wanted.topic_id) or self.image.topics.get(wanted.topic_name)
            for each in wanted.partitions:
                code = self._check(request.broker_id, topic, each)
                if code is not ErrorCode.NONE:
                    refusals[wanted.topic_id, each.partition_index] = code
                elif topic is not None:
                    row = topic.partitions[each.partition_index]
                    isr = tuple(member.broker_id for member in each.new_isr_with_epochs)
                    if isr != row.isr:
                        states[TopicPartition(topic.name, row.index)] = PartitionState(
                            leader=row.leader,
                            leader_epoch=row.leader_epoch,
                            isr=isr,
                            partition_epoch=row.partition_epoch,
                        )
        self._alter(states)
        return AlterPartitionResponse(
            error_code=ErrorCode.NONE,
            topics=tuple(
                AlteredTopic(
                    topic_name=wanted.topic_name,
                    topic_id=wanted.topic_id,
                    partitions=tuple(
                        self._altered(wanted.topic_id, wanted.topic_name, each.partition_index, refusals)
                        for each in wanted.partitions
                    ),
                )
                for wanted in request.topics
            ),
        )

    def _check(self, sender: int, topic: Topic | None, wanted: AlterPartitionPartition) -> ErrorCode:
        """The code of Apache Kafka 3.9; it does not look who sends."""
        if topic is None or not 0 <= wanted.partition_index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_ID
        row = topic.partitions[wanted.partition_index]
        if wanted.leader_epoch > row.leader_epoch or wanted.partition_epoch > row.partition_epoch:
            return ErrorCode.NOT_CONTROLLER
        if wanted.leader_epoch < row.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if sender != row.leader:
            return ErrorCode.INVALID_REQUEST
        isr = tuple(member.broker_id for member in wanted.new_isr_with_epochs)
        if isr == row.isr:
            return ErrorCode.NONE
        if wanted.partition_epoch < row.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if sender not in isr or not set(isr) <= set(row.replicas) or len(set(isr)) < len(isr):
            return ErrorCode.INVALID_REQUEST
        eligible = (self.image.brokers.keys() - self._shutting_down) | {sender}
        return ErrorCode.NONE if set(isr) <= eligible else ErrorCode.INELIGIBLE_REPLICA

    def _alter(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Of the in-sync replicas everybody hears by UpdateMetadata; no role changes."""
        if not states:
            return
        self._tree.set_states(states)
        by_topic: dict[str, list[Partition]] = {}
        for at, state in states.items():
            by_topic.setdefault(at.topic, []).append(
                in_state(self.image.topics[at.topic].partitions[at.partition], state)
            )
        self._publish(tuple(deltas.PartitionsChanged(name, tuple(rows)) for name, rows in by_topic.items()))
        self.take_deltas()
        self._requests += self._announcer.metadata([(self.image.topics[name], rows) for name, rows in by_topic.items()])

    def _altered(
        self, topic_id: UUID, name: str, index: int, refusals: Mapping[tuple[UUID, int], ErrorCode]
    ) -> AlteredPartition:
        code = refusals.get((topic_id, index))
        topic = self.image.topic_by_id(topic_id) or self.image.topics.get(name)
        if code is not None or topic is None:
            return AlteredPartition(partition_index=index, error_code=code or ErrorCode.UNKNOWN_TOPIC_ID)
        row = topic.partitions[index]
        return AlteredPartition(
            partition_index=index,
            error_code=ErrorCode.NONE,
            leader_id=row.leader,
            leader_epoch=row.leader_epoch,
            isr=row.isr,
            partition_epoch=row.partition_epoch,
        )

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
            self._requests += self._announcer.deleted(topic)
            self._begin_deletion(topic.name, [row.replicas for row in topic.partitions])
            self.collisions.remove(topic.name)
        self._publish(tuple(deltas.TopicDeleted(topic.name, topic.id, ()) for topic in topics))

    def _begin_deletion(self, name: str, assignments: Sequence[Sequence[int]]) -> None:
        replicas: dict[int, list[int]] = {}
        for index, brokers in enumerate(assignments):
            for broker in brokers:
                replicas.setdefault(broker, []).append(index)
        self._dying[name] = replicas
        self.deletions[name] = PendingDeletion(len(assignments), set(replicas))
        self._requests += self._announcer.deletions(name, replicas)

    def resume_deletion(self, topic: Topic) -> None:
        """A deletion that an earlier term has begun: some broker may not have heard of it."""
        self._requests += self._announcer.deleted(topic)
        self._begin_deletion(topic.name, [row.replicas for row in topic.partitions])
        if not topic.partitions:
            self.partitions_deleted(topic.name, ())

    def replica_deleted(self, name: str, broker: int) -> None:
        """The broker has deleted its replicas of the topic."""
        self._dying.get(name, {}).pop(broker, None)
        if name in self.deletions and self.partitions_deleted(name, [broker]):
            self._dying.pop(name, None)
            self.finish_deletions()
