"""Which offsets are kept no longer? Those past their retention time, and those of topics that are deleted.

Both look at everything that there is, so they go in bounded steps: a loop pass must not take long, and a batch of
tombstones must fit into the log. A group without offsets and members goes as well.
"""

from collections.abc import Hashable
from uuid import UUID

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.offsets_committing import OffsetGroups
from kafkad.core.groups.offsets_pending import PendingOffsets
from kafkad.core.groups.offsets_store import CommittedOffsets, Topics, is_expired, is_of_topic
from kafkad.core.groups.records import GroupRecord, OffsetRemoved

EXPIRY_TIMER = ("offsets expiry",)

STEP_OFFSETS = 5_000
"""Looked at in a step, about 2 ms, unless a single group has more."""
STEP_TOMBSTONES = 2_000
"""In a batch, of a few dozen bytes each."""

DeletedTopics = frozenset[tuple[str, UUID]]


class OffsetSweeps:
    """`_waiting`: the groups that the running round has still to look at; which is nothing to remember."""

    def __init__(
        self, groups: OffsetGroups, committed: CommittedOffsets, pending: PendingOffsets, config: GroupConfig
    ) -> None:
        self._groups = groups
        self._committed = committed
        self._pending = pending
        self._retention_ms = config.offsets_retention_ms
        self._interval_ms = config.offsets_retention_check_interval_ms
        self._waiting: list[str] = []

    def next_round(self, moment: Moment) -> tuple[Hashable, int]:
        return EXPIRY_TIMER, moment.monotonic_ms + self._interval_ms

    def expire(self, moment: Moment) -> Outcome[GroupRecord]:
        """The next step of the round, or the first of a new one. Sets the timer for what is next."""
        outcome: Outcome[GroupRecord] = Outcome()
        if not self._waiting:
            self._waiting = [group.group_id for group in self._groups]
        looked_at = 0
        while self._waiting and looked_at < STEP_OFFSETS and len(outcome.records) < STEP_TOMBSTONES:
            looked_at += self._expire_group(self._waiting.pop(), moment, outcome.records)
        outcome.timers.append((EXPIRY_TIMER, moment.monotonic_ms) if self._waiting else self.next_round(moment))
        if outcome.records:
            outcome.after = self._expired
        return outcome

    def _expired(self, code: ErrorCode, moment: Moment) -> Outcome[GroupRecord]:
        """An append that was refused has set no timer: try again in the next round."""
        if code is ErrorCode.NONE:
            return Outcome()
        self._waiting.clear()
        return Outcome(timers=[self.next_round(moment)])

    def topics_deleted(self, topics: DeletedTopics, moment: Moment) -> Outcome[GroupRecord]:
        """The first tombstones; what there is beyond them follows when these are safe."""
        records = [OffsetRemoved(*key) for key in self._of_topics(topics)]
        outcome: Outcome[GroupRecord] = Outcome(records=list(records[:STEP_TOMBSTONES]))
        if len(records) > STEP_TOMBSTONES:
            outcome.after = lambda code, later: self._go_on(topics, code, later)
        return outcome

    def _go_on(self, topics: DeletedTopics, code: ErrorCode, moment: Moment) -> Outcome[GroupRecord]:
        return self.topics_deleted(topics, moment) if code is ErrorCode.NONE else Outcome()

    def _of_topics(self, topics: DeletedTopics) -> list[tuple[str, str, int]]:
        found: dict[tuple[str, str, int], None] = {}
        for name, topic_id in topics:
            for group_id, offsets in self._committed.groups():
                for partition, packed in offsets.get(name, {}).items():
                    if is_of_topic(packed, topic_id):
                        found[group_id, name, partition] = None
            for key, packed in self._pending.all():
                if key[1] == name and is_of_topic(packed, topic_id):
                    found[key] = None
        return list(found)

    def _expire_group(self, group_id: str, moment: Moment, records: list[GroupRecord]) -> int:
        """How many offsets were looked at, one more for the group."""
        group = self._groups.get(group_id)
        if group is None:
            return 1
        offsets = self._committed.of_group(group_id)
        looked_at = 1 + sum(map(len, offsets.values()))
        expired = self._expired_of(group_id, offsets, moment.wall_ms)
        records += expired[:STEP_TOMBSTONES]
        if len(expired) > STEP_TOMBSTONES:
            self._waiting.append(group_id)
            return looked_at
        keeps_some = len(expired) < looked_at - 1 or self._pending.has_group(group_id)
        if group.is_empty and not keeps_some:
            records += group.tombstones()
        return looked_at

    def _expired_of(self, group_id: str, offsets: Topics, now_ms: int) -> list[OffsetRemoved]:
        group = self._groups.get(group_id)
        expiration = None if group is None else group.expiration()
        if group is None or expiration is None:
            return []
        return [
            OffsetRemoved(group_id, topic, partition)
            for topic, partitions in offsets.items()
            if not group.is_subscribed(topic)
            for partition, packed in partitions.items()
            if is_expired(packed, expiration.since_ms, now_ms, self._retention_ms)
            and not self._pending.has(group_id, topic, partition)
        ]
