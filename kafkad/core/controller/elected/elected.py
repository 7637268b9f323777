"""The controller of a cluster in one term: a single broker's controller, extended to the partitions of all brokers.

It hosts no partitions. The term guards each write, and `take_requests` returns the requests to the brokers. A broker
that fails is removed from each ISR, except the last member of an ISR; a broker that registers gets the whole metadata.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from kafkad.core.cluster.control_requests import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    IsrMember,
    RemainingPartition,
)
from kafkad.core.controller import deltas
from kafkad.core.controller.elected.balancing import imbalanced_partitions
from kafkad.core.controller.elected.controlled_shutdown import led_by_others, not_in_sync, partitions_of
from kafkad.core.controller.elected.partition_events import ElectedPartition, add_lines, add_without_leader
from kafkad.core.controller.elected.reassigning import ReassigningController, leftover_steps
from kafkad.core.controller.elected.registrations import registration_lines
from kafkad.core.controller.elections import ElectionType
from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.image import NO_LEADER, Broker, Partition, Topic
from kafkad.core.controller.partition_rows import in_states, state_of
from kafkad.core.controller.reassignments import under_way
from kafkad.core.controller.settings import ControllerSettings
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.errors import ErrorCode
from kafkad.core.types import NO_BROKER_EPOCH, NO_TOPIC_ID, RECOVERED, TopicPartition

UNCLEAN_LEADER_ELECTION_ENABLE = "unclean.leader.election.enable"


class ElectedController(ReassigningController):
    """Created by `controller_failover`. Every method raises the errors of the store: then the term may be over."""

    def begin(self, elected: Iterable[ElectedPartition] = ()) -> None:
        """Elect leaders in place of brokers that failed before the term, then send the whole metadata to all brokers.

        `elected` are the elections of the failover, which the image contains.
        """
        unavailable = self._unavailable()
        for each in elected:
            if each.after.leader != NO_LEADER:
                add_lines(self._lines, each, unavailable)
        self._elect_around()
        for topic in self.image.topics.values():
            for row in topic.partitions:
                if row.leader == NO_LEADER and row.isr:
                    add_without_leader(self._lines, TopicPartition(topic.name, row.index), row)
        steps = leftover_steps(self._electorate(), self.image.topics.values())
        self._store_steps(steps)
        self.take_deltas()
        self.announce_all()
        self._stop_removed(steps)

    def brokers_changed(self, registered: Mapping[int, Broker], unreachable: frozenset[int] = frozenset()) -> None:
        """The registered brokers have changed. `unreachable` brokers count as failed although their sessions live.

        A new epoch is a new registration. A changed address loses the requests sent to the old one.
        """
        before = self._announcer.brokers
        for line in registration_lines(before, registered):
            self._lines.note(line)
        new = [each for each, at in registered.items() if each not in before or before[each].epoch != at.epoch]
        staying = {each: broker for each, broker in registered.items() if each not in new}
        self._shutting_down = self._shutting_down.intersection(staying)
        returned_online = self._forget_offline(staying)
        moved = [each for each, at in staying.items() if before[each] != at]
        has_changed = staying != before or staying.keys() - unreachable != self.image.brokers.keys()
        if has_changed:
            self._set_brokers(staying, unreachable)
            self._elect_around()
        if new:
            self._raise_epochs_of_returned(frozenset(new))
            self._announce()
            self._set_brokers(registered, unreachable)
            self._requests += self._announcer.metadata([], staying)
            self.announce_all([*new, *moved])
            self._elect_around()
            self._end_reassignments(under_way(self.image, None))
        elif has_changed:
            self._announce()
            self._requests += self._announcer.metadata([])
            if moved:
                self.announce_all(moved)
            self._end_reassignments(under_way(self.image, None))
        self._announce_offline_replicas(returned_online)

    def _forget_offline(self, staying: Mapping[int, Broker]) -> list[TopicPartition]:
        """A new registration ends the offline state of replicas. Returns the partitions of these replicas."""
        before = self._announcer.offline
        self._set_offline({at: brokers.intersection(staying) for at, brokers in before.items()})
        return [at for at, brokers in before.items() if self._announcer.offline.get(at) != brokers]

    def _announce_offline_replicas(self, partitions: Iterable[TopicPartition]) -> None:
        """Send the offline replicas of these partitions to all brokers."""
        by_topic: dict[str, set[int]] = {}
        for at in partitions:
            by_topic.setdefault(at.topic, set()).add(at.partition)
        self._announce()
        for name in sorted(by_topic.keys() & self.image.topics.keys()):
            topic = self.image.topics[name]
            rows = [row for row in topic.partitions if row.index in by_topic[name]]
            self._requests += self._announcer.metadata([(topic, rows)])

    def _raise_epochs_of_returned(self, returned: frozenset[int]) -> None:
        """Where fetches carry no broker epochs, a new leader epoch invalidates fetches of earlier incarnations."""
        if not self.settings.names_broker_epochs:
            electorate = self._electorate()
            self._change_states(
                lambda _at, row: electorate.state_after_return(state_of(row), returned.intersection(row.replicas))
            )

    def directories_failed(self, brokers: Iterable[int]) -> None:
        """The responses to these LeaderAndIsr requests report which replicas are offline."""
        rows = [(topic, topic.partitions) for topic in self.image.topics.values()]
        self._requests += self._announcer.roles(rows, is_new=False, only=brokers)

    def replicas_offline(self, broker_id: int, broker_epoch: int, partitions: Iterable[TopicPartition]) -> int:
        """The broker reports offline replicas: their log directory is offline or full. Others lead until it reports
        them online, or registers again. Returns the number of newly offline replicas.
        """
        if not self._is_registered(broker_id, broker_epoch):
            return 0
        existing = {at for at in partitions if at.topic in self.image.topics}
        before = self._announcer.offline
        new = {at for at in existing if broker_id not in before.get(at, ())}
        if not new:
            return 0
        self._announce()
        self._set_offline({**before, **{at: before.get(at, frozenset()) | {broker_id} for at in new}})
        self._elect_around()
        self._announce_offline_replicas(new)
        return len(new)

    def replicas_online(self, broker_id: int, broker_epoch: int, partitions: Iterable[TopicPartition]) -> None:
        """The broker reports these replicas online: they may lead again."""
        before = self._announcer.offline
        returned = {at for at in partitions if broker_id in before.get(at, ())}
        if not returned or not self._is_registered(broker_id, broker_epoch):
            return
        self._announce()
        self._set_offline({at: each - {broker_id} if at in returned else each for at, each in before.items()})
        self._elect_around()
        self._announce_offline_replicas(returned)

    def _is_registered(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self._announcer.brokers.get(broker_id)
        return broker is not None and broker.epoch == broker_epoch

    def _set_offline(self, offline: Mapping[TopicPartition, frozenset[int]]) -> None:
        existing = {at: brokers for at, brokers in offline.items() if brokers and at.topic in self.image.topics}
        self._announcer = replace(self._announcer, offline=existing)

    def _elect_around(self) -> None:
        electorate = self._electorate()
        self._change_states(lambda at, row: self._state_around(electorate, at, row))

    def _state_around(self, electorate: Electorate, at: TopicPartition, row: Partition) -> PartitionState | None:
        state = state_of(row)
        moved = electorate.next_state(at, row.replicas, state, unclean=self._may_be_unclean(at.topic) and bool(row.isr))
        if moved is not None:
            return moved
        kept = tuple(replica for replica in state.isr if electorate.is_online(at, replica))
        if not electorate.is_online(at, state.leader) or kept == state.isr or not kept:
            return None
        return replace(state, leader_epoch=state.leader_epoch + 1, isr=kept)

    def _may_be_unclean(self, topic: str) -> bool:
        of_topic = self.image.topics[topic].configs.get(UNCLEAN_LEADER_ELECTION_ENABLE)
        return self.settings.unclean_leader_election_enable if of_topic is None else of_topic.lower() == "true"

    def configs_changed(
        self,
        topics: Mapping[str, Mapping[str, str]],
        brokers: Mapping[str, Mapping[str, str]],
        settings: ControllerSettings,
    ) -> None:
        """A broker has written these configurations; `settings` are the settings that follow from them."""
        changes: list[deltas.Change] = [
            deltas.TopicConfigChanged(name, dict(configs))
            for name, configs in topics.items()
            if name in self.image.topics and self.image.topics[name].configs != configs
        ]
        changes += [
            deltas.BrokerConfigChanged(broker, dict(configs))
            for broker, configs in brokers.items()
            if self.image.broker_configs.get(broker, {}) != configs
        ]
        if changes:
            self._publish(tuple(changes))
        was_unclean, self.settings = self.settings.unclean_leader_election_enable, settings
        is_unclean = settings.unclean_leader_election_enable and not was_unclean
        if is_unclean or any(name in self.image.topics and self._may_be_unclean(name) for name in topics):
            self._elect_around()

    def balance_leaders(self, percentage: int) -> int:
        """Elect the preferred leaders of brokers that lead too few partitions; returns the number of elections."""
        requested = imbalanced_partitions(self.image, percentage)
        results = self.elect_leaders(requested, ElectionType.PREFERRED) if requested else {}
        return sum(isinstance(each, PartitionState) for each in results.values())

    def controlled_shutdown(self, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        """A broker shuts down: elect other leaders, and remove it from each ISR with other members.

        The response lists the partitions that it still leads; the broker may repeat the request.
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
        self._announce_to_others(broker.id)
        followed, remaining = partitions_of(broker.id, self.image.topics.values())
        self._requests += self._announcer.stops(broker.id, followed)
        rows = tuple(RemainingPartition(topic_name=at.topic, partition_index=at.partition) for at in remaining)
        return ControlledShutdownResponse(error_code=ErrorCode.NONE, remaining_partitions=rows)

    def check_sender(self, broker_id: int, broker_epoch: int) -> ErrorCode:
        """The error of a request that only a live broker with its current epoch may send."""
        sender = self.image.brokers.get(broker_id)
        if sender is None:
            return ErrorCode.BROKER_ID_NOT_REGISTERED
        return ErrorCode.NONE if sender.epoch == broker_epoch else ErrorCode.STALE_BROKER_EPOCH

    def _announce_to_others(self, leaving: int) -> None:
        """The broker that shuts down gets no roles."""
        others = self._announcer.brokers.keys() - {leaving}
        for delta in self.take_deltas():
            for change in delta.changes:
                if isinstance(change, deltas.PartitionsChanged):
                    rows = [(self.image.topics[change.name], change.partitions)]
                    self._requests += self._announcer.roles(rows, is_new=False, only=others)
                    self._requests += self._announcer.metadata(rows)

    def alter_partitions(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """AlterPartition: ISR changes that leaders request."""
        sender = self.image.brokers.get(request.broker_id)
        if sender is None or sender.epoch != request.broker_epoch:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        self._announce()
        states: dict[TopicPartition, PartitionState] = {}
        errors: _PartitionErrors = {}
        for requested in request.topics:
            topic = self._topic(requested.topic_id, requested.topic_name)
            for each in requested.partitions:
                code = self._check(request.broker_id, topic, each)
                if code is not ErrorCode.NONE:
                    errors[requested.topic_id, requested.topic_name, each.partition_index] = code
                elif topic is not None:
                    row = topic.partitions[each.partition_index]
                    before = state_of(row)
                    after = replace(before, isr=_isr_of(each), leader_recovery_state=each.leader_recovery_state)
                    if after != before:
                        states[TopicPartition(topic.name, row.index)] = after
        self._alter(states)
        response = AlterPartitionResponse(
            error_code=ErrorCode.NONE,
            topics=tuple(
                AlteredTopic(
                    topic_name=requested.topic_name,
                    topic_id=requested.topic_id,
                    partitions=tuple(
                        self._altered(requested.topic_id, requested.topic_name, each.partition_index, errors)
                        for each in requested.partitions
                    ),
                )
                for requested in request.topics
            ),
        )
        self._end_reassignments(states)
        return response

    def _topic(self, topic_id: UUID, name: str) -> Topic | None:
        """Only requests without topic ids are resolved by name, which a later topic may have again."""
        return self.image.topics.get(name) if topic_id == NO_TOPIC_ID else self.image.topic_by_id(topic_id)

    def _check(self, sender: int, topic: Topic | None, requested: AlterPartitionPartition) -> ErrorCode:
        """The code of Apache Kafka 3.9, and more: the sender must lead, and the ISR must consist of replicas."""
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not 0 <= requested.partition_index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        row = topic.partitions[requested.partition_index]
        if requested.leader_epoch > row.leader_epoch or requested.partition_epoch > row.partition_epoch:
            return ErrorCode.NOT_CONTROLLER
        if requested.leader_epoch < row.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if sender != row.leader:
            return ErrorCode.INVALID_REQUEST
        isr = _isr_of(requested)
        if isr == row.isr and requested.leader_recovery_state == row.leader_recovery_state:
            return ErrorCode.NONE
        if requested.partition_epoch < row.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        is_recovering = requested.leader_recovery_state != RECOVERED
        if is_recovering and (requested.leader_recovery_state != row.leader_recovery_state or len(isr) > 1):
            return ErrorCode.INVALID_REQUEST
        if any(not self._is_eligible(member) for member in requested.new_isr_with_epochs if member.broker_id != sender):
            return ErrorCode.INELIGIBLE_REPLICA
        is_possible = sender in isr and set(isr) <= set(row.replicas) and len(set(isr)) == len(isr)
        return ErrorCode.NONE if is_possible else ErrorCode.INVALID_REQUEST

    def _is_eligible(self, member: IsrMember) -> bool:
        """Whether the broker is live with the epoch of the counted fetches: a later incarnation may lack records."""
        broker = self.image.brokers.get(member.broker_id)
        if broker is None or member.broker_id in self._shutting_down:
            return False
        return member.broker_epoch in (NO_BROKER_EPOCH, broker.epoch)

    def _alter(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """UpdateMetadata announces the new ISRs to all brokers; no role changes."""
        if not states:
            return
        self._tree.set_states(states)
        self._announce_isr(states)

    def _announce_isr(self, stored: Mapping[TopicPartition, PartitionState]) -> None:
        changes = in_states(self.image, stored)
        self._publish(changes)
        self.take_deltas()
        rows = [(self.image.topics[each.name], each.partitions) for each in changes]
        self._requests += self._announcer.metadata(rows)

    def isr_changed(self, stored: Mapping[TopicPartition, PartitionState]) -> None:
        """A leader or tool has written these states into the store: take over newer ones and announce them."""
        self._announce()
        newer = {}
        for at, state in stored.items():
            topic = self.image.topics.get(at.topic)
            row = topic.partitions[at.partition] if topic and 0 <= at.partition < len(topic.partitions) else None
            is_possible = row is not None and {state.leader, *state.isr} <= {NO_LEADER, *row.replicas}
            if row is not None and is_possible and state.partition_epoch > row.partition_epoch:
                newer[at] = replace(state, partition_epoch=state.partition_epoch - 1)
        if newer:
            self._announce_isr(newer)

    def _altered(self, topic_id: UUID, name: str, index: int, errors: "_PartitionErrors") -> AlteredPartition:
        code = errors.get((topic_id, name, index))
        topic = self._topic(topic_id, name)
        if code is not None or topic is None:
            return AlteredPartition(partition_index=index, error_code=code or ErrorCode.UNKNOWN_TOPIC_ID)
        row = topic.partitions[index]
        return AlteredPartition(
            partition_index=index,
            error_code=ErrorCode.NONE,
            leader_id=row.leader,
            leader_epoch=row.leader_epoch,
            isr=row.isr,
            leader_recovery_state=row.leader_recovery_state,
            partition_epoch=row.partition_epoch,
        )


_PartitionErrors = dict[tuple[UUID, str, int], ErrorCode]
"""By topic id, topic name (one of them empty, by the request's version) and partition."""


def _isr_of(requested: AlterPartitionPartition) -> tuple[int, ...]:
    return tuple(member.broker_id for member in requested.new_isr_with_epochs)
