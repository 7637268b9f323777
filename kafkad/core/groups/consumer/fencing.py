"""Removes members from a KIP-848 group, and decides the type of the remaining group.

The group gets a new epoch; or, if all remaining members use the classic protocol, it becomes a classic group again
(KIP-848, online migration). The same happens when a static member of the classic protocol replaces the last member of
the new protocol.
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
from kafkad.core.groups.consumer.heartbeat import GroupUpdate, bump_epoch, drop_unused_patterns, remove_member
from kafkad.core.groups.consumer.member import ConsumerMember
from kafkad.core.groups.consumer.timers import cancel_timers
from kafkad.core.groups.consumer.topics import Subscriptions
from kafkad.core.groups.migration import downgraded, supported_protocols
from kafkad.core.groups.records import GroupRecord
from kafkad.core.groups.registry import Groups

GroupOutcome = Outcome[GroupRecord]


class Fencing:
    """`config` may be replaced at any time."""

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
        """Fence these members; the others get the new epoch in their heartbeats."""
        update = GroupUpdate(group, self.config, self._subscriptions, moment)
        if not leaving:
            return Outcome()
        fenced = {member.member_id for member in leaving}
        update.log(f"fenced member(s) {first_names(sorted(fenced))}: {reason}")
        remaining = [member for member in group.members.values() if member.member_id not in fenced]
        if remaining and self._may_downgrade(remaining, len(remaining)):
            return self._downgrade(update, remaining, group.epoch, reason)
        for member in leaving:
            remove_member(update, member.member_id)
        drop_unused_patterns(update)
        bump_epoch(update, self._subscriptions.hash_of(update.group.subscribed_names()))
        return Outcome(
            records=list(update.records), timers=cancel_timers(group.group_id, fenced), log_lines=update.log_lines
        )

    def downgrades_without(self, group: ConsumerGroup, leaving: ConsumerMember) -> bool:
        """Whether the group becomes a classic group if a classic member replaces this static member."""
        others = [member for member in group.members.values() if member is not leaving]
        return leaving.classic is None and self._may_downgrade(others, len(group.members))

    def replace(self, update: GroupUpdate, previous: ConsumerGroup) -> GroupOutcome:
        """`update` includes the replacement; `previous` is the group without it. The outcome has no replies."""
        is_assigned = update.group.assignment_epoch >= update.group.epoch
        reason = None if is_assigned else "a new assignment is required"
        return self._downgrade(update, list(update.group.members.values()), previous.epoch, reason)

    def _may_downgrade(self, remaining: Iterable[ConsumerMember], size: int) -> bool:
        return (
            all(member.classic is not None for member in remaining)
            and self.config.migration_policy.may_downgrade
            and size <= self._classic_config.max_size
        )

    def _downgrade(
        self, update: GroupUpdate, remaining: Sequence[ConsumerMember], generation: int, reason: str | None
    ) -> GroupOutcome:
        """Replace the group by a classic group of the remaining members. With a `reason` all must rejoin."""
        group, wall_ms = update.group, update.moment.wall_ms
        record = downgraded(group, remaining, generation, self._subscriptions.topics, wall_ms)
        update.log(f"downgraded with {len(remaining)} member(s) to the classic protocol")

        def written(_code: ErrorCode, later: Moment) -> GroupOutcome:
            classic = self._groups.get(group.group_id)
            if not isinstance(classic, ClassicGroup):
                # The write failed. Slow replicas don't matter: the classic group exists already.
                return Outcome()
            step = Step(self._classic_config, later)
            for previous in remaining:
                member = classic.members.get(previous.member_id)
                if member is not None:
                    _restore_protocols(classic, member, previous)
                    step.restart_session(classic, member)
            if reason is not None:
                rebalance_or_complete(classic, f"downgraded from the consumer protocol: {reason}", step)
            return step.outcome

        return Outcome(
            records=[*update.records, *group.tombstones(), record],
            timers=cancel_timers(group.group_id, group.members),
            after=written,
            log_lines=update.log_lines,
        )


def _restore_protocols(group: ClassicGroup, member: ClassicMember, previous: ConsumerMember) -> None:
    """Restore all protocols of a member, unless it has rejoined: its record has only the selected protocol."""
    if member.join_token is None and previous.classic is not None:
        group.update(
            member,
            supported_protocols(previous.classic),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.session_timeout_ms,
            join_token=None,
        )
