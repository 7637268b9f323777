"""Removes members from a KIP-848 group, and decides what the group becomes without them.

It gets a new epoch; or, when all remaining members use the classic protocol, it becomes a classic group again (KIP-848,
online migration). That also happens when a static member of the classic protocol replaces the last one of the new
protocol.
"""

from collections.abc import Iterable, Sequence

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.member import ClassicMember
from kafkad.core.groups.classic.rebalance import rebalance_or_complete
from kafkad.core.groups.classic.step import Step, first_names
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.consumer.config import ConsumerConfig
from kafkad.core.groups.consumer.group import ConsumerGroup
from kafkad.core.groups.consumer.heartbeat import GroupUpdate, bump, drop_unused_patterns, remove_member
from kafkad.core.groups.consumer.member import ConsumerMember
from kafkad.core.groups.consumer.timers import no_timers
from kafkad.core.groups.consumer.topics import Subscriptions
from kafkad.core.groups.migration import downgraded, supported_protocols
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.registry import Groups

GroupOutcome = Outcome[GroupRecord]


class Fencing:
    """`config` may be changed while it is used."""

    def __init__(
        self, groups: Groups, classic_config: GroupConfig, config: ConsumerConfig, subscriptions: Subscriptions
    ) -> None:
        self._groups = groups
        self._classic_config = classic_config
        self.config = config
        self._subscriptions = subscriptions

    def fence(
        self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], reason: str, moment: Moment
    ) -> GroupOutcome:
        """Fence these members; the others learn of it by their heartbeats."""
        update = GroupUpdate(group, self.config, self._subscriptions, moment)
        if not leaving:
            return Outcome()
        out = {member.member_id for member in leaving}
        update.tell(f"fenced member(s) {first_names(sorted(out))}: {reason}")
        staying = [member for member in group.members.values() if member.member_id not in out]
        if staying and self._may_go_back(staying, len(staying)):
            return self._go_back(update, staying, group.epoch, reason)
        for member in leaving:
            remove_member(update, member.member_id)
        drop_unused_patterns(update)
        bump(update, self._subscriptions.hash_of(update.group.subscribed_names()))
        return Outcome(records=list(update.records), timers=no_timers(group.group_id, out), log_lines=update.log_lines)

    def may_be_replaced(self, group: ConsumerGroup, leaving: ConsumerMember) -> bool:
        """Whether the group becomes a classic one when a classic member replaces this static member."""
        others = [member for member in group.members.values() if member is not leaving]
        return leaving.classic is None and self._may_go_back(others, len(group.members))

    def replace(self, update: GroupUpdate, before: ConsumerGroup) -> GroupOutcome:
        """`update` includes the replacement; `before` is the group without it. The outcome has no replies."""
        is_assigned = update.group.assignment_epoch >= update.group.epoch
        reason = None if is_assigned else "partitions were to be divided anew"
        return self._go_back(update, list(update.group.members.values()), before.epoch, reason)

    def _may_go_back(self, staying: Iterable[ConsumerMember], size: int) -> bool:
        return (
            all(member.classic is not None for member in staying)
            and self.config.migration_policy.may_downgrade
            and size <= self._classic_config.max_size
        )

    def _go_back(
        self, update: GroupUpdate, staying: Sequence[ConsumerMember], generation: int, reason: str | None
    ) -> GroupOutcome:
        """Replace the group by a classic one of the staying members. With a `reason` all have to join again."""
        group, wall_ms = update.group, update.moment.wall_ms
        record = downgraded(group, staying, generation, self._subscriptions.topics, wall_ms)
        update.tell("a classic group goes on")

        def written(_code: ErrorCode, later: Moment) -> GroupOutcome:
            classic = self._groups.get(group.group_id)
            if not isinstance(classic, ClassicGroup):
                # The log refused it. Replicas that are late don't matter: the classic group exists already.
                return Outcome()
            step = Step(self._classic_config, later)
            for was in staying:
                member = classic.members.get(was.member_id)
                if member is not None:
                    _restore_protocols(classic, member, was)
                    step.keep_session(classic, member)
            if reason is not None:
                rebalance_or_complete(classic, f"the group has left the consumer protocol: {reason}", step)
            return step.outcome

        return Outcome(
            records=[*update.records, *group.tombstones(), record],
            timers=no_timers(group.group_id, group.members),
            after=written,
            log_lines=update.log_lines,
        )


def _restore_protocols(group: ClassicGroup, member: ClassicMember, was: ConsumerMember) -> None:
    """Its record has only the chosen protocol. A member that has joined again has sent all of them itself."""
    if member.join_token is None and was.classic is not None:
        group.update(
            member,
            supported_protocols(was.classic),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.session_timeout_ms,
            join_token=None,
        )
