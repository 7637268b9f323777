"""Which offsets are removed? Those past their retention time, and those of deleted topics.

Both searches go through all offsets, so they go in bounded steps, each started by a timer: a loop pass must not take
long, and a batch of tombstones must fit into the log. A group without offsets and members is removed as well.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.group import Expiration, Group
from kafkad.core.groups.offsets.commit import OffsetGroups
from kafkad.core.groups.offsets.pending import PendingOffsets
from kafkad.core.groups.offsets.store import CommittedOffsets, Packed, is_expired, is_of_topic, record_offset
from kafkad.core.groups.records import GroupRecord, OffsetRemoved

EXPIRY_TIMER = ("offsets expiry",)
DELETION_TIMER = ("offsets of deleted topics",)
SWEEP_TIMERS = (EXPIRY_TIMER, DELETION_TIMER)

STEP_OFFSETS = 5_000
"""Offsets per step, which take about 2 ms."""
STEP_TOMBSTONES = 2_000
"""Tombstones per batch, of a few dozen bytes each."""


class _Part(NamedTuple):
    """As many of a group's offsets as one step has time for. Without a topic: the group itself, after all its
    offsets."""

    group_id: str
    topic: str | None = None
    partitions: tuple[int, ...] = ()


class _Deletion:
    """Deleted topics, and the groups that may have offsets in them. Mutable: groups are taken off when done."""

    __slots__ = ("groups", "ids", "newest")

    def __init__(self, ids: Mapping[str, Set[UUID]], groups: list[str], newest: int) -> None:
        self.ids = ids
        self.groups = groups
        self.newest = newest
        """Log offset at the time of the deletion: later commits are for a topic of the same name that exists."""


class OffsetSweeps:
    """`newest` is the log offset of the newest commit. A restart forgets the searches that are not finished."""

    def __init__(
        self, groups: OffsetGroups, committed: CommittedOffsets, pending: PendingOffsets, config: GroupConfig
    ) -> None:
        self.newest = -1
        self._groups = groups
        self._committed = committed
        self._pending = pending
        self._retention_ms = config.offsets_retention_ms
        self._interval_ms = config.offsets_retention_check_interval_ms
        self._waiting: list[str] = []
        self._parts: list[_Part] = []
        """Of the present round: the parts of the group that it has come to."""
        self._deletions: deque[_Deletion] = deque()

    def next_round(self, moment: Moment) -> tuple[Hashable, int]:
        return EXPIRY_TIMER, moment.monotonic_ms + self._interval_ms

    def step(self, key: Hashable, moment: Moment) -> Outcome[GroupRecord]:
        """One of `SWEEP_TIMERS` is due."""
        return self.expire(moment) if key == EXPIRY_TIMER else self._delete(moment)

    # Retention.

    def expire(self, moment: Moment) -> Outcome[GroupRecord]:
        """The next step of the round, or the first of a new one. Sets the timer of the following step."""
        outcome: Outcome[GroupRecord] = Outcome()
        if not self._waiting and not self._parts:
            self._waiting = self._groups.ids()
        looked_at = 0
        while (self._waiting or self._parts) and looked_at < STEP_OFFSETS and len(outcome.records) < STEP_TOMBSTONES:
            if not self._parts:
                self._parts = self._parts_of(self._waiting.pop())
            part = self._parts.pop()
            looked_at += 1 + len(part.partitions)
            self._expire_part(part, moment, outcome.records)
        is_over = not self._waiting and not self._parts
        outcome.timers.append(self.next_round(moment) if is_over else (EXPIRY_TIMER, moment.monotonic_ms))
        if outcome.records:
            outcome.after = self._expired
        return outcome

    def _expired(self, code: ErrorCode, moment: Moment) -> Outcome[GroupRecord]:
        """The refused append has set no timer: try again in the next round."""
        if code is ErrorCode.NONE:
            return Outcome()
        self._waiting.clear()
        self._parts.clear()
        return Outcome(timers=[self.next_round(moment)])

    def _parts_of(self, group_id: str) -> list[_Part]:
        """In reverse: the last one is taken first. Offsets committed meanwhile are too young to expire."""
        parts = [_Part(group_id)]
        for topic, partitions in self._committed.of_group(group_id).items():
            parts += [_Part(group_id, topic, some) for some in _in_steps(partitions)]
        return parts

    def _expire_part(self, part: _Part, moment: Moment, records: list[GroupRecord]) -> None:
        group = self._groups.get(part.group_id)
        if group is None:
            return
        if part.topic is not None:
            expiration = group.expiration()
            if expiration is not None and not group.is_subscribed(part.topic):
                records += self._expired_of(part, part.topic, expiration, moment.wall_ms)
        elif self._may_go(group, records):
            records += group.tombstones()

    def _expired_of(self, part: _Part, topic: str, expiration: Expiration, now_ms: int) -> Iterator[OffsetRemoved]:
        partitions = self._committed.of_group(part.group_id).get(topic, {})
        for partition in part.partitions:
            packed = partitions.get(partition)
            if packed is None or not is_expired(packed, expiration.since_ms, now_ms, self._retention_ms):
                continue
            if not self._pending.has(part.group_id, topic, partition):
                yield OffsetRemoved(part.group_id, topic, partition)

    def _may_go(self, group: Group, removed: list[GroupRecord]) -> bool:
        """The group has no members, and no offsets besides those that this step has `removed`."""
        if not group.is_empty or self._pending.has_group(group.group_id):
            return False
        left = sum(map(len, self._committed.of_group(group.group_id).values()))
        for record in reversed(removed):
            if not left or record.group_id != group.group_id:
                break
            left -= 1
        return not left

    # Deleted topics.

    def topics_deleted(self, ids: Mapping[str, Set[UUID]], moment: Moment) -> Outcome[GroupRecord]:
        """These topics are gone, given as all ids by name: the steps that follow remove their offsets."""
        groups = list(dict.fromkeys((*self._committed.groups(), *self._pending.groups())))
        if not groups:
            return Outcome()
        self._deletions.append(_Deletion(ids, groups, self.newest))
        return Outcome(timers=[(DELETION_TIMER, moment.monotonic_ms)])

    def _delete(self, moment: Moment) -> Outcome[GroupRecord]:
        outcome: Outcome[GroupRecord] = Outcome()
        if not self._deletions:
            return outcome
        deletion = self._deletions[0]
        looked_at: list[str] = []
        while deletion.groups and len(looked_at) < STEP_OFFSETS and len(outcome.records) < STEP_TOMBSTONES:
            group_id = deletion.groups.pop()
            room = STEP_TOMBSTONES - len(outcome.records)
            found = [OffsetRemoved(group_id, *row) for row in islice(self._of_deleted(group_id, deletion), room)]
            outcome.records += found
            if len(found) == room:
                # There may be more.
                deletion.groups.append(group_id)
            else:
                looked_at.append(group_id)
        if not deletion.groups and not outcome.records:
            self._deletions.popleft()
        if self._deletions:
            outcome.timers.append((DELETION_TIMER, moment.monotonic_ms))
        if outcome.records:
            outcome.after = lambda code, _: self._deleted(deletion, looked_at, code)
        return outcome

    def _deleted(self, deletion: _Deletion, looked_at: list[str], code: ErrorCode) -> Outcome[GroupRecord]:
        if code is not ErrorCode.NONE:
            # Refused: the timer of this step comes again.
            deletion.groups += looked_at
        return Outcome()

    def _of_deleted(self, group_id: str, deletion: _Deletion) -> Iterator[tuple[str, int]]:
        """(topic, partition)."""
        offsets = self._committed.of_group(group_id)
        for name in offsets.keys() & deletion.ids.keys():
            for partition, packed in offsets[name].items():
                if _is_deleted(packed, deletion, name):
                    yield name, partition
        for name, partition in self._pending.of_group(group_id):
            if name not in deletion.ids or partition in offsets.get(name, {}):
                continue
            if any(_is_deleted(packed, deletion, name) for packed in self._pending.of((group_id, name, partition))):
                yield name, partition


def _is_deleted(packed: Packed, deletion: _Deletion, name: str) -> bool:
    is_old = record_offset(packed) <= deletion.newest
    return is_old and any(is_of_topic(packed, topic_id) for topic_id in deletion.ids[name])


def _in_steps(partitions: Iterable[int]) -> Iterator[tuple[int, ...]]:
    rows = tuple(partitions)
    return (rows[at : at + STEP_TOMBSTONES] for at in range(0, len(rows), STEP_TOMBSTONES))
