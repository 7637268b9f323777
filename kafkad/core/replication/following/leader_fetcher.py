"""All partitions that one fetcher follows from one leader: the next request, and the handling of responses.

An error pauses its partition only. After a transient error, such as a restarted process of the leader or metadata that
reaches brokers one after the other, the pause is short at first and doubles. A partition is fetched again only after
the records of its previous response are in the log. `now_ms` is on the monotonic clock.
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
_MAX_DOUBLINGS = 16
_TRANSIENT = frozenset(
    {
        *(ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        *(ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.INCONSISTENT_TOPIC_ID),
    }
)
"""Transient errors: metadata reaches brokers one after the other."""


class LoggedProblem(NamedTuple):
    """A log line about a partition; lines of the same partition and cause are rate-limited."""

    about: PartitionId
    cause: str
    text: str


class LeaderFetcher:
    """The fetcher for one connection to a leader; at most one request is pending. All leaders share `quota`.

    `may_use_topic_ids`: all brokers of the cluster support Fetch with topic ids.
    """

    def __init__(self, backoff_ms: int, quota: ReplicaQuota, *, may_use_topic_ids: bool = True) -> None:
        self.backoff_ms = backoff_ms
        self._may_use_topic_ids = may_use_topic_ids
        self._quota = quota
        self.problems: list[LoggedProblem] = []
        """The caller takes and logs them."""
        self._session = FetchSessionHandler()
        self._partitions: dict[PartitionId, FollowedPartition] = {}
        self._by_slot: dict[int, FollowedPartition] = {}
        self._by_name: dict[tuple[str, int], FollowedPartition] = {}
        self._is_waiting = False
        """For a response of the leader."""
        self._failures = 0
        """The number of failed requests in a row."""
        self._writing = 0
        self.failed_partitions: set[PartitionId] = set()
        """The partitions that pause after an error that is not transient."""

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def partitions(self) -> list[FollowedPartition]:
        return list(self._partitions.values())

    # Followed partitions.

    def follow(self, partition: FollowedPartition) -> None:
        """Follow the partition from now on, or continue with another owner or in another leader epoch."""
        present = self._partitions.get(partition.id)
        if present is not None and present.slot == partition.slot:
            if (present.owner, present.leader_epoch) != (partition.owner, partition.leader_epoch):
                self._end_state(present)
                present.restart(owner=partition.owner, leader_epoch=partition.leader_epoch)
            present.is_throttled = partition.is_throttled
            return
        if present is not None:
            self.unfollow(present.id)
        self._partitions[partition.id] = partition
        self._by_slot[partition.slot] = partition
        self._by_name[partition.name.topic, partition.name.partition] = partition

    def unfollow(self, id: PartitionId) -> None:
        partition = self._partitions.pop(id, None)
        if partition is None:
            return
        self._end_state(partition)
        self.failed_partitions.discard(id)
        if self._by_slot.get(partition.slot) is partition:
            del self._by_slot[partition.slot]
        name = partition.name.topic, partition.name.partition
        if self._by_name.get(name) is partition:
            del self._by_name[name]

    def lag(self, slot: int) -> int:
        """The lag of the replica behind the leader's high watermark."""
        partition = self._by_slot.get(slot)
        return 0 if partition is None else max(0, partition.leader_high_watermark - partition.fetch_offset)

    def owner_lost(self, owner: int) -> None:
        """The worker ended: the next incarnation gets its orders again."""
        for partition in self._partitions.values():
            if partition.owner == owner:
                self._end_state(partition)
                partition.restart(owner=owner, leader_epoch=partition.leader_epoch)

    def _end_state(self, partition: FollowedPartition) -> None:
        if partition.state is FollowState.WRITING:
            self._writing -= 1

    # Requests.

    def describe_orders(self, now_ms: int) -> list[tuple[int, FollowOrder]]:
        """(owner, order) for each log whose end offset is unknown."""
        orders: list[tuple[int, FollowOrder]] = []
        for partition in self._partitions.values():
            if partition.needs_log_end and partition.retry_ms <= now_ms:
                partition.is_order_sent = True
                orders.append((partition.owner, partition.order(FollowKind.DESCRIBE, 0)))
        return orders

    def next_request(self, now_ms: int) -> FollowerFetch | list[OffsetQuery] | None:
        """The next request to the leader; None while a response or an order is pending, or all partitions pause."""
        if self._is_waiting or self._writing:
            return None
        ready = [each for each in self._partitions.values() if each.retry_ms <= now_ms]
        offsets = [self._offset_query(each) for each in ready if each.state is FollowState.OUT_OF_RANGE]
        if offsets:
            self._is_waiting = True
            return offsets
        to_fetch = self._unthrottled([each for each in ready if each.state is FollowState.READY], now_ms)
        if not to_fetch:
            return None
        self._is_waiting = True
        uses_topic_ids = self._may_use_topic_ids and all(each.has_topic_id for each in to_fetch)
        return self._session.next_request([each.row() for each in to_fetch], uses_topic_ids=uses_topic_ids)

    def _unthrottled(self, ready: list[FollowedPartition], now_ms: int) -> list[FollowedPartition]:
        """Without throttled replicas beyond the replication quota, which pause from now on."""
        pause_ms = self._quota.pause_ms(now_ms)
        if pause_ms == 0:
            return ready
        throttled = [each for each in ready if each.is_throttled and not each.is_in_sync]
        for partition in throttled:
            partition.retry_ms = now_ms + pause_ms
        return [each for each in ready if each not in throttled] if throttled else ready

    def next_ms(self) -> int | None:
        """The time of the next order or request; None while nothing is due."""
        is_busy = self._is_waiting or bool(self._writing)
        waiting = () if is_busy else (FollowState.READY, FollowState.OUT_OF_RANGE)
        due = (each.retry_ms for each in self._partitions.values() if each.state in waiting or each.needs_log_end)
        return min(due, default=None)

    @staticmethod
    def _offset_query(partition: FollowedPartition) -> OffsetQuery:
        timestamp = LATEST if partition.leader_end is None else EARLIEST
        return OffsetQuery(partition.id, partition.name, partition.leader_epoch, timestamp)

    # Responses of the leader.

    def failed(self, now_ms: int) -> None:
        """The request failed or its response can't be read: all partitions pause."""
        self._is_waiting = False
        self._session.failed()
        pause_ms = self._growing_pause_ms(self._failures)
        self._failures += 1
        for partition in self._partitions.values():
            if partition.state in (FollowState.READY, FollowState.OUT_OF_RANGE):
                partition.retry_ms = max(partition.retry_ms, now_ms + pause_ms)

    def _growing_pause_ms(self, before: int) -> int:
        """The pause after `before` failures and this one."""
        return min(FIRST_PAUSE_MS << min(before, _MAX_DOUBLINGS), self.backoff_ms)

    def fetched(self, response: Fetched, now_ms: int) -> list[tuple[int, FollowOrder]]:
        """(owner, order) for each partition with records or a divergence."""
        self._is_waiting = False
        self._failures = 0
        ids = [self._partition_id(row) for row in response.partitions]
        if not self._session.handle_response(response, ids):
            return []
        orders: list[tuple[int, FollowOrder]] = []
        for id, row in zip(ids, response.partitions, strict=True):
            partition = None if id is None else self._partitions.get(id)
            if partition is None or partition.state is not FollowState.READY:
                continue
            if self._session.requested_row(partition.id) != partition.row():
                continue  # The request is from before the restart of this partition.
            order = self._ordered(partition, row, now_ms)
            if order is not None:
                orders.append((partition.owner, order))
        return orders

    def _partition_id(self, row: PartitionFetched) -> PartitionId | None:
        """The partition of a row, which may be unfollowed and still in the session."""
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
            self._rejected_by_leader(partition, row.error, now_ms)
            return None
        partition.rejections = 0
        if row.diverging_epoch != NO_LEADER_EPOCH:
            if row.diverging_end_offset < 0:
                self._pause(partition, "divergence", "the leader reports a divergence without its offset", now_ms)
                return None
            partition.state = FollowState.TRUNCATING
            return partition.order(FollowKind.TRUNCATE, row.diverging_end_offset, diverging_epoch=row.diverging_epoch)
        partition.state = FollowState.WRITING
        partition.leader_high_watermark = row.high_watermark
        if row.records_length:
            # Without a session the leader fills its response in request order: move this partition to the end.
            self._partitions[partition.id] = self._partitions.pop(partition.id)
            if partition.is_throttled:
                self._quota.record(row.records_length, now_ms)
        self._writing += 1
        return partition.order(FollowKind.APPEND, partition.fetch_offset, row)

    def offsets_listed(self, rows: Sequence[OffsetListed], now_ms: int) -> list[tuple[int, FollowOrder]]:
        """Handle the response to a list of `OffsetQuery`."""
        self._is_waiting = False
        self._failures = 0
        orders: list[tuple[int, FollowOrder]] = []
        listed = set()
        for row in rows:
            partition = self._by_name.get((row.topic, row.partition))
            if partition is None or partition.state is not FollowState.OUT_OF_RANGE:
                continue
            listed.add(partition.id)
            if row.error:
                self._rejected_by_leader(partition, row.error, now_ms)
            elif row.offset < 0:
                self._pause(partition, "offset", f"the leader returns the invalid log end offset {row.offset}", now_ms)
            elif partition.leader_end is None and row.offset >= partition.fetch_offset:
                partition.leader_end = row.offset
            else:
                orders.append((partition.owner, self._found_range(partition, row.offset, now_ms)))
        for partition in self._partitions.values():
            if partition.state is FollowState.OUT_OF_RANGE and partition.id not in listed:
                partition.retry_ms = max(partition.retry_ms, now_ms + self.backoff_ms)
        return orders

    def _found_range(self, partition: FollowedPartition, offset: int, now_ms: int) -> FollowOrder:
        leader_end = offset if partition.leader_end is None else partition.leader_end
        leader_start = 0 if partition.leader_end is None else offset
        partition.leader_end = None
        next_offset, is_full = offset_after_out_of_range(
            partition.fetch_offset, leader_start=leader_start, leader_end=leader_end
        )
        if next_offset == partition.fetch_offset:
            # The leader has this offset now, or returns the error for any offset.
            self._retry_later(partition, now_ms)
        partition.state = FollowState.TRUNCATING
        return partition.order(FollowKind.RESTART if is_full else FollowKind.TRUNCATE_TO_OFFSET, next_offset)

    # Results of orders.

    def order_completed(self, result: FollowResult, now_ms: int) -> None:
        partition = self._by_slot.get(result.slot)
        if partition is None or (partition.short_id, partition.leader_epoch) != (result.short_id, result.leader_epoch):
            return
        expected = _STATE_OF_KIND[FollowKind(result.kind)]
        if partition.state is not expected:
            return
        self._end_state(partition)
        before = partition.fetch_offset
        if result.log_end_offset >= 0:
            partition.state = FollowState.READY
            partition.fetch_offset = result.log_end_offset
            partition.last_fetched_epoch = result.latest_epoch
            partition.log_start_offset = result.log_start_offset
            if expected is FollowState.WRITING:
                self.failed_partitions.discard(partition.id)
                partition.is_in_sync = partition.fetch_offset >= partition.leader_high_watermark
        else:
            # The log end is unknown: the next order requests it after the pause.
            partition.restart(owner=partition.owner, leader_epoch=partition.leader_epoch)
        if result.error:
            self._rejected_by_owner(partition, result.error, before, now_ms)

    def _rejected_by_owner(self, partition: FollowedPartition, error: int, offset: int, now_ms: int) -> None:
        name = ErrorCode(error).name
        self._pause(partition, name, f"records from offset {offset} on can't be appended: {name}", now_ms)

    def _rejected_by_leader(self, partition: FollowedPartition, error: int, now_ms: int) -> None:
        if error in _TRANSIENT:
            self._retry_later(partition, now_ms)
            return
        name = ErrorCode(error).name if error in _CODES else f"error {error}"
        self._pause(partition, name, f"the leader returns {name}", now_ms)

    def _retry_later(self, partition: FollowedPartition, now_ms: int) -> None:
        partition.retry_ms = now_ms + self._growing_pause_ms(partition.rejections)
        partition.rejections += 1

    def _pause(self, partition: FollowedPartition, cause: str, text: str, now_ms: int) -> None:
        partition.retry_ms = now_ms + self.backoff_ms
        self.failed_partitions.add(partition.id)
        self.problems.append(LoggedProblem(partition.id, cause, f"fetching of {partition.name} pauses: {text}"))


_CODES = frozenset(code.value for code in ErrorCode)
_STATE_OF_KIND = {
    FollowKind.DESCRIBE: FollowState.STARTING,
    FollowKind.APPEND: FollowState.WRITING,
    FollowKind.TRUNCATE: FollowState.TRUNCATING,
    FollowKind.TRUNCATE_TO_OFFSET: FollowState.TRUNCATING,
    FollowKind.RESTART: FollowState.TRUNCATING,
}
