"""The leader's view of a partition with several replicas, as Apache Kafka's Partition.

The high watermark is the smallest log end offset of the in-sync replicas. During an ISR change, replicas of the present
and of the requested ISR count (the maximal ISR), so that committed records are on all replicas of either. Caught-up
followers outside the ISR count too, so that they can join it. A new leader does not have its followers' log end offsets
yet: the high watermark waits until all of the ISR have fetched.

At most one ISR change is pending. Its response or newer metadata ends it. After most errors only newer metadata ends
it, because the state at the controller is unknown.
"""

from collections.abc import Collection
from typing import NamedTuple

from kafkad.core.errors import ErrorCode
from kafkad.core.partition_lines import Level, PartitionEvent, PartitionLines, shown
from kafkad.core.replication.leading.follower import LONG_AGO_MS, UNKNOWN_OFFSET, Follower
from kafkad.core.types import NO_BROKER_EPOCH, TopicPartition

RETRY_MS = 50
REJOIN_MS = 500
"""The pause after the controller rejected the new member: about as long as a follower's fetch without records."""

_NOT_APPLIED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""With these errors the controller certainly keeps the present state."""
_OUTDATED_STATE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""With these errors the controller has another state, which the metadata will bring."""


class CommittedPartitionState(NamedTuple):
    """The partition's state as the controller wrote it (Kafka's CommittedPartitionState)."""

    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class FollowerProgress(NamedTuple):
    """A fetch of a follower; see `FollowerFetched` in the messages."""

    leader_epoch: int
    replica_id: int
    replica_epoch: int
    fetch_offset: int
    log_start_offset: int
    time_ms: int


class LedPartition:
    """One partition while this broker leads it in one leader epoch.

    `log_end` is the log end offset at the beginning of the epoch. `now_ms` and all other times are monotonic.
    """

    __slots__ = (
        "_followers",
        "_log_end",
        "_requested_isr",
        "_retry_ms",
        "broker_id",
        "epoch_start",
        "max_lag_ms",
        "requested_epochs",
        "state",
    )

    def __init__(
        self, broker_id: int, state: CommittedPartitionState, *, log_end: int, now_ms: int, max_lag_ms: int
    ) -> None:
        self.broker_id = broker_id
        self.state = state
        self.epoch_start = log_end
        self.max_lag_ms = max_lag_ms
        self._log_end = log_end
        self._requested_isr: tuple[int, ...] | None = None
        """The ISR that is requested and neither granted nor rejected."""
        self.requested_epochs: tuple[int, ...] = ()
        """The broker epoch of each member's counted fetches, -1 if unknown. Fixed with the change: a repeated request
        must not name a later incarnation, which may lack these records.
        """
        self._retry_ms: int | None = None
        """The time to repeat a request."""
        self._followers: dict[int, Follower] = {}
        self._follow(state, now_ms)

    def _follow(self, state: CommittedPartitionState, now_ms: int) -> None:
        """The lag of in-sync replicas counts from now on, because their last fetch is unknown."""
        self._followers = {
            replica: self._followers.get(replica) or Follower(replica, now_ms if replica in state.isr else LONG_AGO_MS)
            for replica in state.replicas
            if replica != self.broker_id
        }

    # The state, and changes of the ISR.

    @property
    def maximal_isr(self) -> frozenset[int]:
        return frozenset(self.state.isr) | frozenset(self._requested_isr or ())

    @property
    def requested_isr(self) -> tuple[int, ...] | None:
        """The pending ISR change; it is requested again after a restart of the process that sends it."""
        return self._requested_isr

    def update(self, state: CommittedPartitionState, now_ms: int) -> bool:
        """Take over the state from the metadata or from a response. False if it is not newer."""
        if state.leader_epoch != self.state.leader_epoch or state.partition_epoch <= self.state.partition_epoch:
            return False
        self._set(state, now_ms)
        return True

    def _set(self, state: CommittedPartitionState, now_ms: int) -> None:
        joined = set(state.isr).difference(self.state.isr)
        self.state = state
        self._requested_isr = self._retry_ms = None
        self._follow(state, now_ms)
        for replica in joined.intersection(self._followers):
            self._followers[replica].reset_lag(now_ms)

    def isr_change_completed(self, code: int, state: CommittedPartitionState, now_ms: int) -> bool:
        """The change was granted (code 0) with this new state, or rejected. True if the state is new.

        A rejection has the epochs of its request. Newer metadata may have ended that change already; then the rejection
        does not apply to the pending one.
        """
        if state.leader_epoch != self.state.leader_epoch or self._requested_isr is None:
            return False
        is_newer = state.partition_epoch > self.state.partition_epoch
        if code == ErrorCode.NONE:
            if not is_newer and (
                state.partition_epoch < self.state.partition_epoch or state.isr != self._requested_isr
            ):
                return False
            self._set(state._replace(replicas=self.state.replicas), now_ms)
            return True
        if state.partition_epoch != self.state.partition_epoch:
            return False
        if code in _NOT_APPLIED:
            self._requested_isr = None
            self._retry_ms = now_ms + REJOIN_MS
        elif code not in _OUTDATED_STATE:
            self._retry_ms = now_ms + RETRY_MS
        return False

    def begin_isr_change(
        self, log_end: int, high_watermark: int, now_ms: int, live: Collection[int]
    ) -> tuple[int, ...] | None:
        """The ISR to request now, which is pending from then on; None when there is nothing to request.

        First, followers that lag for too long are removed. Otherwise a follower joins if its broker is in `live` and it
        has all committed records, and all records from before this leader epoch. A removed follower has to fetch before
        it joins again: its broker may have failed and lost records.
        """
        if self._retry_ms is not None and now_ms >= self._retry_ms:
            self._retry_ms = None
            if self._requested_isr is not None:
                return self._requested_isr
        if self._requested_isr is not None:
            return None
        isr = self.state.isr
        remaining = tuple(each for each in isr if not self._is_out_of_sync(each, log_end, now_ms))
        if len(remaining) < len(isr):
            self._retry_ms = None
            for replica in set(isr).difference(remaining).intersection(self._followers):
                self._followers[replica].is_removed = True
            return self._request(remaining)
        joining = self._joining(high_watermark, live) if self._retry_ms is None else None
        return None if joining is None else self._request((*isr, joining))

    def _request(self, isr: tuple[int, ...]) -> tuple[int, ...]:
        self._requested_isr = isr
        self.requested_epochs = tuple(
            self._followers[each].broker_epoch if each in self._followers else NO_BROKER_EPOCH for each in isr
        )
        return isr

    def _is_out_of_sync(self, replica: int, log_end: int, now_ms: int) -> bool:
        if replica == self.broker_id:
            return False
        follower = self._followers.get(replica)
        return follower is None or not follower.is_caught_up(log_end, now_ms, self.max_lag_ms)

    def _joining(self, high_watermark: int, live: Collection[int]) -> int | None:
        required = max(high_watermark, self.epoch_start)
        for replica, follower in self._followers.items():
            if replica in self.state.isr or replica not in live or follower.is_removed:
                continue
            if follower.log_end_offset >= required:
                return replica
        return None

    def log_end_of(self, replica: int) -> int:
        """The log end offset in the follower's last fetch; UNKNOWN_OFFSET before the first."""
        follower = self._followers.get(replica)
        return UNKNOWN_OFFSET if follower is None else follower.log_end_offset

    # Progress of followers.

    def fetched(self, progress: FollowerProgress, log_end: int) -> bool:
        """Count a follower's fetch. False if the fetch is for another leader epoch or log, or from no follower."""
        follower = self._followers.get(progress.replica_id)
        if follower is None or progress.leader_epoch != self.state.leader_epoch:
            return False
        if 0 <= progress.replica_epoch < follower.broker_epoch or not 0 <= progress.fetch_offset <= log_end:
            # From an earlier incarnation of that broker, or for another log.
            return False
        follower.broker_epoch = progress.replica_epoch
        follower.fetched(progress.fetch_offset, progress.log_start_offset, log_end, progress.time_ms)
        return True

    def appended(self, log_end: int, now_ms: int) -> None:
        """The log has grown: followers that were caught up until now lag from now on."""
        previous, self._log_end = self._log_end, log_end
        if previous != log_end:
            for follower in self._followers.values():
                if follower.log_end_offset == previous and follower.caught_up_ms < now_ms:
                    follower.caught_up_ms = now_ms

    def high_watermark(self, log_end: int, min_isr: int, now_ms: int, live: Collection[int]) -> int:
        """The high watermark that this leader can compute; UNKNOWN_OFFSET before all of the ISR have fetched.

        It does not advance while the ISR is smaller than `min_isr`.
        """
        if len(self.state.isr) < min(min_isr, len(self.state.replicas)):
            return UNKNOWN_OFFSET
        maximal, end = self.maximal_isr, log_end
        for replica, follower in self._followers.items():
            if follower.log_end_offset < end and (
                replica in maximal or (replica in live and follower.is_caught_up(log_end, now_ms, self.max_lag_ms))
            ):
                end = follower.log_end_offset
        return end

    def low_watermark(self, log_start: int, live: Collection[int]) -> int:
        """The smallest log start offset of live replicas, for DeleteRecords; UNKNOWN_OFFSET until all have fetched."""
        starts = [each.log_start_offset for each in self._followers.values() if each.broker_id in live]
        return min([log_start, *starts])

    def next_check_ms(self, log_end: int, now_ms: int) -> int | None:
        """The time at which a follower lags for too long or a request may be repeated: later than `now_ms` after a call
        of `begin_isr_change` with it. None if nothing is pending.
        """
        due = [] if self._retry_ms is None else [self._retry_ms]
        for follower in self._followers.values():
            too_late_ms = follower.caught_up_ms + self.max_lag_ms + 1
            if follower.log_end_offset != log_end and too_late_ms > now_ms:
                due.append(too_late_ms)
        return min(due, default=None)


def add_isr_change(
    lines: PartitionLines, at: TopicPartition, before: tuple[int, ...], led: LedPartition, log_end: int
) -> None:
    """Add the log line of an ISR change that the leader requested. `before` is the ISR before the change; `log_end` is
    the leader's log end offset.
    """
    isr = led.state.isr
    change = f"{at} from {shown(before)} to {shown(isr)}"
    removed, joined = _named(before, isr), _named(isr, before)
    if removed:
        ends = ", ".join(f"replica {each} at {_offset(led.log_end_of(each))}" for each in before if each not in isr)
        cause = (
            f"{removed} not caught up for {led.max_lag_ms / 1000:g} s (replica.lag.time.max.ms); "
            "a caught-up replica joins again"
        )
        event = PartitionEvent(Level.WARNING, "ISR shrunk for", cause)
        lines.add(event, f"{change} (log end offset {log_end}, {ends})")
    elif joined:
        lines.add(PartitionEvent(Level.INFO, "ISR expanded for", f"{joined} caught up"), change)


def _named(some: tuple[int, ...], others: tuple[int, ...]) -> str:
    found = [str(each) for each in some if each not in others]
    return "" if not found else f"replica {found[0]} is" if len(found) == 1 else f"replicas {', '.join(found)} are"


def _offset(offset: int) -> str:
    return "an unknown offset" if offset == UNKNOWN_OFFSET else str(offset)
