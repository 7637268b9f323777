"""Elects the leader of a partition and computes the next partition state.

The strategy (a plugin) is called through kafkad.core.election, which rejects a leader outside the ISR unless unclean
election is allowed.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import cast

from kafkad.core.controller.image import NO_LEADER, Broker
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.topics.assignment import Assignment
from kafkad.core.election import ElectionContext, ElectionReason, LeaderElectionStrategy, elect
from kafkad.core.types import RECOVERING, BrokerId, TopicPartition

FIRST_LEADER_EPOCH = 0


class Electorate:
    """The election strategy with the brokers that may be elected now: live and not shutting down.

    `offline`: by partition, live brokers whose log directory of the replica is offline or full.
    """

    def __init__(
        self,
        strategy: LeaderElectionStrategy,
        brokers: Mapping[int, Broker],
        shutting_down: AbstractSet[int] = frozenset(),
        offline: Mapping[TopicPartition, AbstractSet[int]] | None = None,
    ) -> None:
        self._strategy = strategy
        self._shutting_down = frozenset(BrokerId(broker) for broker in shutting_down)
        self._live = frozenset(BrokerId(broker) for broker in brokers) - self._shutting_down
        self._offline = offline or {}
        self._racks = {BrokerId(broker.id): broker.rack for broker in brokers.values() if broker.rack is not None}

    def without(self, broker_id: int) -> "Electorate":
        """The same electorate without this broker, whose log directory is offline."""
        others = Electorate(self._strategy, {}, self._shutting_down, self._offline)
        others._live = self._live - {BrokerId(broker_id)}
        others._racks = self._racks
        return others

    def is_online(self, partition: TopicPartition, broker: int) -> bool:
        """Whether the broker is live and its replica is online. It may be shutting down."""
        is_live = broker in self._live or broker in self._shutting_down
        return is_live and broker not in self._offline.get(partition, ())

    def _electable(self, partition: TopicPartition) -> frozenset[BrokerId]:
        offline = self._offline.get(partition)
        return self._live if not offline else frozenset(each for each in self._live if each not in offline)

    def _of_electable(self, partition: TopicPartition, replicas: Collection[int]) -> tuple[int, ...]:
        electable = self._electable(partition)
        return tuple(replica for replica in replicas if replica in electable)

    def first_state(
        self, partition: TopicPartition, assignment: Assignment, leader_epoch: int = FIRST_LEADER_EPOCH
    ) -> PartitionState:
        """The state of a new partition: every live replica is in sync, because there are no records."""
        isr = self._of_electable(partition, assignment)
        leader = self._elect(partition, assignment, isr)
        return PartitionState(leader=leader, leader_epoch=leader_epoch, isr=isr or assignment)

    def next_state(
        self, partition: TopicPartition, assignment: Assignment, state: PartitionState, *, unclean: bool = False
    ) -> PartitionState | None:
        """The state after a change of live brokers or log directories; None: `state` stays.

        `unclean`: another replica may lead if no in-sync replica is live.
        """
        if self.is_online(partition, state.leader):
            return None
        leader = self._elect(partition, assignment, state.isr)
        if leader == NO_LEADER and unclean:
            another = self.unclean_state(partition, assignment, state)
            if another is not None:
                return another
        if leader == NO_LEADER and state.leader == NO_LEADER:
            return None
        return _led_by(
            state,
            leader,
            # The last in-sync replicas stay in the ISR although they are not live: only they have all records.
            self._of_electable(partition, state.isr) or state.isr,
        )

    def state_after_restarts(
        self, partition: TopicPartition, assignment: Assignment, state: PartitionState, restarted: AbstractSet[int]
    ) -> PartitionState | None:
        """The state after restarts of in-sync brokers since `state` was written; None: `state` stays.

        A restarted broker may have lost records in a power failure; a broker without restart has all records. Without
        one, a restarted replica leads in a new leader epoch, which distinguishes its new records from the lost ones.
        """
        if restarted.isdisjoint(state.isr):
            return None
        complete = tuple(each for each in state.isr if each not in restarted and self.is_online(partition, each))
        isr = complete or state.isr
        leader = state.leader if state.leader in complete else self._elect(partition, assignment, isr)
        if leader == NO_LEADER:
            return None
        return _led_by(state, leader, complete or self._of_electable(partition, state.isr))

    def state_after_return(self, state: PartitionState, returned: frozenset[int]) -> PartitionState | None:
        """The state after restarts of brokers with replicas outside the ISR; None: `state` stays.

        The leader may count fetches of an earlier incarnation, or have requested its ISR membership. A new leader
        epoch invalidates both. A partition without leader needs none.
        """
        if state.leader == NO_LEADER or not returned.difference(state.isr):
            return None
        return _led_by(state, state.leader, state.isr)

    def state_after_controlled_shutdown(
        self, partition: TopicPartition, assignment: Assignment, state: PartitionState
    ) -> PartitionState | None:
        """The state with a leader that is not shutting down; None: no in-sync replica can lead."""
        leader = self._elect(partition, assignment, state.isr, ElectionReason.CONTROLLED_SHUTDOWN)
        if leader == NO_LEADER:
            return None
        return _led_by(state, leader, tuple(each for each in state.isr if each not in self._shutting_down))

    def preferred_state(
        self, partition: TopicPartition, assignment: Assignment, state: PartitionState
    ) -> PartitionState | None:
        """The state with the preferred leader; None: it is not in sync, not live, or leads already."""
        leader = self._elect(partition, assignment, state.isr, ElectionReason.PREFERRED)
        if leader in (NO_LEADER, state.leader):
            return None
        return _led_by(state, leader, state.isr)

    def reassigned_state(
        self, partition: TopicPartition, replicas: Assignment, state: PartitionState
    ) -> PartitionState:
        """The state with these replicas, of which some are in sync. A leader among them stays leader."""
        isr = tuple(replica for replica in state.isr if replica in replicas)
        leader = state.leader
        if leader not in isr or not self.is_online(partition, leader):
            leader = self._elect(partition, replicas, isr, ElectionReason.REASSIGNMENT)
        return _led_by(state, leader, isr)

    def unclean_state(
        self, partition: TopicPartition, assignment: Assignment, state: PartitionState
    ) -> PartitionState | None:
        """The state after an unclean election: the leader may lack records; None: no replica is live."""
        leader = self._elect(partition, assignment, state.isr, unclean=True)
        if leader == NO_LEADER:
            return None
        in_sync = self._of_electable(partition, state.isr)
        led = _led_by(state, leader, in_sync if leader in in_sync else (leader,))
        return led if leader in state.isr else replace(led, leader_recovery_state=RECOVERING)

    def _elect(
        self,
        partition: TopicPartition,
        assignment: Assignment,
        isr: Collection[int],
        reason: ElectionReason = ElectionReason.OFFLINE,
        *,
        unclean: bool = False,
    ) -> int:
        leader = elect(
            self._strategy,
            assignment=cast("tuple[BrokerId, ...]", assignment),
            isr=frozenset(cast("Collection[BrokerId]", isr)),
            live=self._electable(partition),
            context=ElectionContext(
                topic=partition.topic,
                partition=partition.partition,
                reason=reason,
                unclean=unclean,
                shutting_down=self._shutting_down,
                racks=self._racks,
            ),
        )
        return NO_LEADER if leader is None else leader


def _led_by(state: PartitionState, leader: int, isr: Assignment) -> PartitionState:
    """In a new leader epoch."""
    return replace(state, leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr)
