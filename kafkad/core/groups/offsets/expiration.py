"""Which offsets are removed? Expired offsets, and offsets of deleted topics.

Both searches scan all offsets in bounded steps, each started by a timer: a loop pass must be short, and a batch of
tombstones must fit into the log. A group without offsets and members is removed as well.
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

OFFSETS_PER_STEP = 5_000
"""Offsets per step, which take about 2 ms."""
TOMBSTONES_PER_STEP = 2_000
"""Tombstones per batch, of a few dozen bytes each."""


class _Chunk(NamedTuple):
    """Some offsets of a group, for one step. Without a topic: the group itself, after all its offsets."""

    group_id: str
    topic: str | None = None
    partitions: tuple[int, ...] = ()


class _Deletion:
    """Deleted topics, and the remaining groups that may have offsets of them. Mutable."""

    __slots__ = ("groups", "ids", "newest")

    def __init__(self, ids: Mapping[str, Set[UUID]], groups: list[str], newest: int) -> None:
        self.ids = ids
        self.groups = groups
        self.newest = newest
        """Log offset of the deletion: later commits are for a new topic with the same name."""


class OffsetSweeps:
    """`newest` is the log offset of the newest commit. A restart drops unfinished scans."""

    def __init__(
        self, groups: OffsetGroups, committed: CommittedOffsets, pending: PendingOffsets, config: GroupConfig
    ) -> None:
        self.newest = -1
        self._groups = groups
        self._committed = committed
        self._pending = pending
        self._retention_ms = config.offsets_retention_ms
        self._interval_ms = config.offsets_retention_check_interval_ms
        self._remaining_groups: list[str] = []
        self._chunks: list[_Chunk] = []
        """The remaining chunks of the current group."""
        self._deletions: deque[_Deletion] = deque()

    def next_round(self, moment: Moment) -> tuple[Hashable, int]:
        return EXPIRY_TIMER, moment.monotonic_ms + self._interval_ms

    def step(self, key: Hashable, moment: Moment) -> Outcome[GroupRecord]:
        """Run the next step for a timer of `SWEEP_TIMERS`."""
        return self.expire(moment) if key == EXPIRY_TIMER else self._delete(moment)

    # Retention.

    def expire(self, moment: Moment) -> Outcome[GroupRecord]:
        """The next step of the round, or the first of a new round. Sets the timer of the next step."""
        outcome: Outcome[GroupRecord] = Outcome()
        if not self._remaining_groups and not self._chunks:
            self._remaining_groups = self._groups.ids()
        visited = 0
        while self._remaining_groups or self._chunks:
            if visited >= OFFSETS_PER_STEP or len(outcome.records) >= TOMBSTONES_PER_STEP:
                break
            if not self._chunks:
                self._chunks = self._chunks_of(self._remaining_groups.pop())
            chunk = self._chunks.pop()
            visited += 1 + len(chunk.partitions)
            self._expire_chunk(chunk, moment, outcome.records)
        is_done = not self._remaining_groups and not self._chunks
        outcome.timers.append(self.next_round(moment) if is_done else (EXPIRY_TIMER, moment.monotonic_ms))
        if outcome.records:
            outcome.after = self._expired
        return outcome

    def _expired(self, code: ErrorCode, moment: Moment) -> Outcome[GroupRecord]:
        """After a failed write, whose timers are lost: try again in the next round."""
        if code is ErrorCode.NONE:
            return Outcome()
        self._remaining_groups.clear()
        self._chunks.clear()
        return Outcome(timers=[self.next_round(moment)])

    def _chunks_of(self, group_id: str) -> list[_Chunk]:
        """In reverse order: the last one is processed first. Later commits are too new to expire."""
        chunks = [_Chunk(group_id)]
        for topic, partitions in self._committed.of_group(group_id).items():
            chunks += [_Chunk(group_id, topic, step) for step in _in_steps(partitions)]
        return chunks

    def _expire_chunk(self, chunk: _Chunk, moment: Moment, records: list[GroupRecord]) -> None:
        group = self._groups.get(chunk.group_id)
        if group is None:
            return
        if chunk.topic is not None:
            expiration = group.expiration()
            if expiration is not None and not group.is_subscribed(chunk.topic):
                records += self._expired_of(chunk, chunk.topic, expiration, moment.wall_ms)
        elif self._is_removable(group, records):
            records += group.tombstones()

    def _expired_of(self, chunk: _Chunk, topic: str, expiration: Expiration, now_ms: int) -> Iterator[OffsetRemoved]:
        partitions = self._committed.of_group(chunk.group_id).get(topic, {})
        for partition in chunk.partitions:
            packed = partitions.get(partition)
            if packed is None or not is_expired(packed, expiration.since_ms, now_ms, self._retention_ms):
                continue
            if not self._pending.has(chunk.group_id, topic, partition):
                yield OffsetRemoved(chunk.group_id, topic, partition)

    def _is_removable(self, group: Group, removed: list[GroupRecord]) -> bool:
        """Whether the group has no members, and no offsets except those that this step has `removed`."""
        if not group.is_empty or self._pending.has_group(group.group_id):
            return False
        remaining = sum(map(len, self._committed.of_group(group.group_id).values()))
        for record in reversed(removed):
            if not remaining or record.group_id != group.group_id:
                break
            remaining -= 1
        return not remaining

    # Deleted topics.

    def topics_deleted(self, ids: Mapping[str, Set[UUID]], moment: Moment) -> Outcome[GroupRecord]:
        """Start to remove the offsets of deleted topics, given as all ids by name."""
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
        visited: list[str] = []
        while deletion.groups and len(visited) < OFFSETS_PER_STEP and len(outcome.records) < TOMBSTONES_PER_STEP:
            group_id = deletion.groups.pop()
            remaining = TOMBSTONES_PER_STEP - len(outcome.records)
            found = [OffsetRemoved(group_id, *row) for row in islice(self._of_deleted(group_id, deletion), remaining)]
            outcome.records += found
            if len(found) == remaining:
                # There may be more.
                deletion.groups.append(group_id)
            else:
                visited.append(group_id)
        if not deletion.groups and not outcome.records:
            self._deletions.popleft()
        if self._deletions:
            outcome.timers.append((DELETION_TIMER, moment.monotonic_ms))
        if outcome.records:
            outcome.after = lambda code, _: self._deleted(deletion, visited, code)
        return outcome

    def _deleted(self, deletion: _Deletion, visited: list[str], code: ErrorCode) -> Outcome[GroupRecord]:
        if code is not ErrorCode.NONE:
            # The write failed: the timer of this step repeats it.
            deletion.groups += visited
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
    return (rows[at : at + TOMBSTONES_PER_STEP] for at in range(0, len(rows), TOMBSTONES_PER_STEP))
