"""All partitions that one fetcher follows from one leader: what to ask next, and what an answer means.

An error costs the partition that has it a pause, and no other one. What passes by itself is tried again soon, then less
and less often: a leader's process that is replaced, and brokers that hear of a change one after the other. Nothing is
asked for before the records that came before it are in the log. `now_ms` is monotonic; complaints are sentences for the
broker's log.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kafkad.core.errors import ErrorCode
from kafkad.core.quotas.replication_quota import ReplicaQuota
from kafkad.core.replication.following.fetch_session_handler import FetchSessionHandler
from kafkad.core.replication.following.followed_partition import FollowedPartition, FollowState
from kafkad.core.replication.following.requests import (
    Fetched,
    FollowerFetch,
    FollowKind,
    FollowOrder,
    FollowResult,
    OffsetListed,
    OffsetQuery,
    PartitionFetched,
    PartitionId,
)
from kafkad.core.replication.following.truncation import offset_after_out_of_range
from kafkad.core.types import NO_LEADER_EPOCH

LATEST, EARLIEST = -1, -2
FIRST_PAUSE_MS = 25
_MOST_DOUBLINGS = 16
_USUAL = frozenset(
    {
        *(ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        *(ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.INCONSISTENT_TOPIC_ID),
    }
)
"""Brokers hear of a change one after the other, so these pass by themselves."""


class LoggedProblem(NamedTuple):
    """For the log: about which partition, why, and the whole sentence."""

    about: PartitionId
    cause: str
    text: str


class LeaderFetcher:
    """A mutable object for one connection. At most one request to the leader is under way. Leaders share `quota`.

    `may_use_topic_ids`: whether all brokers of the cluster know a Fetch with topic ids.
    """

    def __init__(self, backoff_ms: int, quota: ReplicaQuota, *, may_use_topic_ids: bool = True) -> None:
        self.backoff_ms = backoff_ms
        self._may_use_topic_ids = may_use_topic_ids
        self._quota = quota
        self.problems: list[LoggedProblem] = []
        """Taken by the caller."""
        self._session = FetchSessionHandler()
        self._partitions: dict[PartitionId, FollowedPartition] = {}
        self._by_slot: dict[int, FollowedPartition] = {}
        self._by_name: dict[tuple[str, int], FollowedPartition] = {}
        self._is_waiting = False
        """For an answer of the leader."""
        self._failures = 0
        """How many requests in a row had no answer that can be read."""
        self._writing = 0
        self.left_alone: set[PartitionId] = set()
        """They pause after an error that does not pass by itself."""

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def partitions(self) -> list[FollowedPartition]:
        return list(self._partitions.values())

    # Who is followed.

    def follow(self, partition: FollowedPartition) -> None:
        """Follow it from now on, or go on with another owner or in another leader epoch."""
        known = self._partitions.get(partition.id)
        if known is not None and known.slot == partition.slot:
            if (known.owner, known.leader_epoch) != (partition.owner, partition.leader_epoch):
                self._leave_state(known)
                known.restart(owner=partition.owner, leader_epoch=partition.leader_epoch)
            known.is_throttled = partition.is_throttled
            return
        if known is not None:
            self.unfollow(known.id)
        self._partitions[partition.id] = partition
        self._by_slot[partition.slot] = partition
        self._by_name[partition.name.topic, partition.name.partition] = partition

    def unfollow(self, id: PartitionId) -> None:
        partition = self._partitions.pop(id, None)
        if partition is None:
            return
        self._leave_state(partition)
        self.left_alone.discard(id)
        if self._by_slot.get(partition.slot) is partition:
            del self._by_slot[partition.slot]
        name = partition.name.topic, partition.name.partition
        if self._by_name.get(name) is partition:
            del self._by_name[name]

    def lag(self, slot: int) -> int:
        """How far the replica is behind what its leader has said to be committed."""
        partition = self._by_slot.get(slot)
        return 0 if partition is None else max(0, partition.leader_high_watermark - partition.fetch_offset)

    def owner_lost(self, owner: int) -> None:
        """The worker died: what it had is asked of the next one."""
        for partition in self._partitions.values():
            if partition.owner == owner:
                self._leave_state(partition)
                partition.restart(owner=owner, leader_epoch=partition.leader_epoch)

    def _leave_state(self, partition: FollowedPartition) -> None:
        if partition.state is FollowState.WRITING:
            self._writing -= 1

    # What to ask.

    def questions(self, now_ms: int) -> list[tuple[int, FollowOrder]]:
        """(owner, order) for each log whose end is not known."""
        orders: list[tuple[int, FollowOrder]] = []
        for partition in self._partitions.values():
            if partition.wants_start and partition.retry_ms <= now_ms:
                partition.is_asked = True
                orders.append((partition.owner, partition.order(FollowKind.DESCRIBE, 0)))
        return orders

    def next_request(self, now_ms: int) -> FollowerFetch | list[OffsetQuery] | None:
        """What the leader is asked now; None while it, or an owner, has an answer to give, or all pause."""
        if self._is_waiting or self._writing:
            return None
        ready = [each for each in self._partitions.values() if each.retry_ms <= now_ms]
        offsets = [self._offset_wanted(each) for each in ready if each.state is FollowState.OUT_OF_RANGE]
        if offsets:
            self._is_waiting = True
            return offsets
        wanted = self._not_held_back([each for each in ready if each.state is FollowState.READY], now_ms)
        if not wanted:
            return None
        self._is_waiting = True
        uses_topic_ids = self._may_use_topic_ids and all(each.has_topic_id for each in wanted)
        return self._session.next_request([each.row() for each in wanted], uses_topic_ids=uses_topic_ids)

    def _not_held_back(self, ready: list[FollowedPartition], now_ms: int) -> list[FollowedPartition]:
        """Without those that pause from now on, as throttled replicas have moved too much."""
        pause_ms = self._quota.pause_ms(now_ms)
        if pause_ms == 0:
            return ready
        held_back = [each for each in ready if each.is_throttled and not each.is_in_sync]
        for partition in held_back:
            partition.retry_ms = now_ms + pause_ms
        return [each for each in ready if each not in held_back] if held_back else ready

    def next_ms(self) -> int | None:
        """When there is something to ask next: of an owner, or of the leader if nothing is under way."""
        is_busy = self._is_waiting or bool(self._writing)
        waiting = () if is_busy else (FollowState.READY, FollowState.OUT_OF_RANGE)
        due = (each.retry_ms for each in self._partitions.values() if each.state in waiting or each.wants_start)
        return min(due, default=None)

    @staticmethod
    def _offset_wanted(partition: FollowedPartition) -> OffsetQuery:
        timestamp = LATEST if partition.leader_end is None else EARLIEST
        return OffsetQuery(partition.id, partition.name, partition.leader_epoch, timestamp)

    # What the leader answered.

    def failed(self, now_ms: int) -> None:
        """No answer, or none that can be read: all partitions pause."""
        self._is_waiting = False
        self._session.failed()
        pause_ms = self._growing_pause_ms(self._failures)
        self._failures += 1
        for partition in self._partitions.values():
            if partition.state in (FollowState.READY, FollowState.OUT_OF_RANGE):
                partition.retry_ms = max(partition.retry_ms, now_ms + pause_ms)

    def _growing_pause_ms(self, before: int) -> int:
        """After so many failures `before` this one."""
        return min(FIRST_PAUSE_MS << min(before, _MOST_DOUBLINGS), self.backoff_ms)

    def fetched(self, answer: Fetched, now_ms: int) -> list[tuple[int, FollowOrder]]:
        """(owner, order) for each partition with news."""
        self._is_waiting = False
        self._failures = 0
        known = [self._named(row) for row in answer.partitions]
        if not self._session.answered(answer, known):
            return []
        orders: list[tuple[int, FollowOrder]] = []
        for id, row in zip(known, answer.partitions, strict=True):
            partition = None if id is None else self._partitions.get(id)
            if partition is None or partition.state is not FollowState.READY:
                continue
            if self._session.asked_for(partition.id) != partition.row():
                continue  # Asked for before it was restarted.
            order = self._ordered(partition, row, now_ms)
            if order is not None:
                orders.append((partition.owner, order))
        return orders

    def _named(self, row: PartitionFetched) -> PartitionId | None:
        """Also one that is not followed any more, as long as the session knows it."""
        if isinstance(row.topic, bytes):
            return row.topic, row.partition
        partition = self._by_name.get((row.topic, row.partition))
        return None if partition is None else partition.id

    def _ordered(self, partition: FollowedPartition, row: PartitionFetched, now_ms: int) -> FollowOrder | None:
        if row.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            partition.state = FollowState.OUT_OF_RANGE
            partition.leader_end = None
            return None
        if row.error:
            self._refused(partition, row.error, now_ms)
            return None
        partition.refusals = 0
        if row.diverging_epoch != NO_LEADER_EPOCH:
            if row.diverging_end_offset < 0:
                self._pause(partition, "divergence", "the leader says that logs part, and not where", now_ms)
                return None
            partition.state = FollowState.TRUNCATING
            return partition.order(FollowKind.TRUNCATE, row.diverging_end_offset, diverging_epoch=row.diverging_epoch)
        partition.state = FollowState.WRITING
        partition.leader_high_watermark = row.high_watermark
        if row.records_length:
            # Without a session the leader fills its answer in the order of the request: others come first next time.
            self._partitions[partition.id] = self._partitions.pop(partition.id)
            if partition.is_throttled:
                self._quota.record(row.records_length, now_ms)
        self._writing += 1
        return partition.order(FollowKind.APPEND, partition.fetch_offset, row)

    def offsets_listed(self, rows: Sequence[OffsetListed], now_ms: int) -> list[tuple[int, FollowOrder]]:
        """The answer to a list of `OffsetQuery`."""
        self._is_waiting = False
        self._failures = 0
        orders: list[tuple[int, FollowOrder]] = []
        answered = set()
        for row in rows:
            partition = self._by_name.get((row.topic, row.partition))
            if partition is None or partition.state is not FollowState.OUT_OF_RANGE:
                continue
            answered.add(partition.id)
            if row.error:
                self._refused(partition, row.error, now_ms)
            elif row.offset < 0:
                self._pause(partition, "offset", f"the leader gives {row.offset} for the end of its log", now_ms)
            elif partition.leader_end is None and row.offset >= partition.fetch_offset:
                partition.leader_end = row.offset
            else:
                orders.append((partition.owner, self._found_range(partition, row.offset, now_ms)))
        for partition in self._partitions.values():
            if partition.state is FollowState.OUT_OF_RANGE and partition.id not in answered:
                partition.retry_ms = max(partition.retry_ms, now_ms + self.backoff_ms)
        return orders

    def _found_range(self, partition: FollowedPartition, offset: int, now_ms: int) -> FollowOrder:
        leader_end = offset if partition.leader_end is None else partition.leader_end
        leader_start = 0 if partition.leader_end is None else offset
        partition.leader_end = None
        goes_on_at, is_anew = offset_after_out_of_range(
            partition.fetch_offset, leader_start=leader_start, leader_end=leader_end
        )
        if goes_on_at == partition.fetch_offset:
            # By now the leader has what it refused, or it says so wherever it is asked.
            self._ask_later(partition, now_ms)
        partition.state = FollowState.TRUNCATING
        return partition.order(FollowKind.RESTART if is_anew else FollowKind.TRUNCATE_TO_OFFSET, goes_on_at)

    # What an owner answered.

    def owner_said(self, result: FollowResult, now_ms: int) -> None:
        partition = self._by_slot.get(result.slot)
        if partition is None or (partition.short_id, partition.leader_epoch) != (result.short_id, result.leader_epoch):
            return
        expected = _STATE_OF_KIND[FollowKind(result.kind)]
        if partition.state is not expected:
            return
        self._leave_state(partition)
        before = partition.fetch_offset
        if result.log_end_offset >= 0:
            partition.state = FollowState.READY
            partition.fetch_offset = result.log_end_offset
            partition.last_fetched_epoch = result.latest_epoch
            partition.log_start_offset = result.log_start_offset
            if expected is FollowState.WRITING:
                self.left_alone.discard(partition.id)
                partition.is_in_sync = partition.fetch_offset >= partition.leader_high_watermark
        else:
            # The owner can't say: it is asked again after the pause.
            partition.restart(owner=partition.owner, leader_epoch=partition.leader_epoch)
        if result.error:
            self._refused_by_owner(partition, result.error, before, now_ms)

    def _refused_by_owner(self, partition: FollowedPartition, error: int, offset: int, now_ms: int) -> None:
        name = ErrorCode(error).name
        self._pause(partition, name, f"what the leader sent for offset {offset} is not appended: {name}", now_ms)

    def _refused(self, partition: FollowedPartition, error: int, now_ms: int) -> None:
        if error in _USUAL:
            self._ask_later(partition, now_ms)
            return
        name = ErrorCode(error).name if error in _CODES else f"error {error}"
        self._pause(partition, name, f"the leader answers {name}", now_ms)

    def _ask_later(self, partition: FollowedPartition, now_ms: int) -> None:
        partition.retry_ms = now_ms + self._growing_pause_ms(partition.refusals)
        partition.refusals += 1

    def _pause(self, partition: FollowedPartition, cause: str, text: str, now_ms: int) -> None:
        partition.retry_ms = now_ms + self.backoff_ms
        self.left_alone.add(partition.id)
        self.problems.append(LoggedProblem(partition.id, cause, f"{partition.name} is not fetched for a while: {text}"))


_CODES = frozenset(code.value for code in ErrorCode)
_STATE_OF_KIND = {
    FollowKind.DESCRIBE: FollowState.STARTING,
    FollowKind.APPEND: FollowState.WRITING,
    FollowKind.TRUNCATE: FollowState.TRUNCATING,
    FollowKind.TRUNCATE_TO_OFFSET: FollowState.TRUNCATING,
    FollowKind.RESTART: FollowState.TRUNCATING,
}
