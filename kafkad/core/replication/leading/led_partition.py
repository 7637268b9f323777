"""The leader's view of a partition with several replicas, as Apache Kafka's Partition has it.

The high watermark is the smallest log end of the in-sync replicas. While the ISR is being changed, replicas of the
present one and of the wanted one count (the maximal ISR): whichever of the two the controller holds, what is committed
is on all of it. Followers outside of the ISR that have kept up until now count too, so that they can join. A new leader
does not know yet what its followers have, so the high watermark waits until all of the ISR have fetched.

At most one change of the ISR is under way. Its answer, or newer metadata, ends it; after most refusals only the latter
may, as nobody knows which state holds.
"""

from collections.abc import Collection
from typing import NamedTuple

from kafkad.core.errors import ErrorCode
from kafkad.core.replication.leading.follower import LONG_AGO_MS, UNKNOWN_OFFSET, Follower
from kafkad.core.types import NO_BROKER_EPOCH

RETRY_MS = 50
REJOIN_MS = 500
"""The pause after a refusal of the new member: as long as a follower's fetch lasts that finds nothing."""

_NOT_APPLIED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The controller says for certain that the present state holds."""
_STATE_IS_OLD = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller has another state, which the metadata will bring."""


class PartitionState(NamedTuple):
    """The partition's state as the controller wrote it."""

    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Progress(NamedTuple):
    """A fetch of a follower; see `FollowerFetched` in the messages."""

    leader_epoch: int
    replica_id: int
    replica_epoch: int
    fetch_offset: int
    log_start_offset: int
    time_ms: int


class LedPartition:
    """One partition while this broker leads it in one leader epoch.

    `log_end` is where the log ended when the epoch began. `now_ms` is monotonic, the same clock as in `Progress`.
    """

    __slots__ = (
        "_followers",
        "_known_end",
        "_retry_ms",
        "_wanted",
        "broker_id",
        "epoch_start",
        "max_lag_ms",
        "requested_epochs",
        "state",
    )

    def __init__(self, broker_id: int, state: PartitionState, *, log_end: int, now_ms: int, max_lag_ms: int) -> None:
        self.broker_id = broker_id
        self.state = state
        self.epoch_start = log_end
        self.max_lag_ms = max_lag_ms
        self._known_end = log_end
        self._wanted: tuple[int, ...] | None = None
        """The ISR that is asked for and neither granted nor refused."""
        self.requested_epochs: tuple[int, ...] = ()
        """In which life of each broker of the change its progress was counted, -1 if that is not known. Fixed with the
        change: it may be asked for again when the broker's next life has fetched, without what the former had.
        """
        self._retry_ms: int | None = None
        """When to ask for a change again."""
        self._followers: dict[int, Follower] = {}
        self._follow(state, now_ms)

    def _follow(self, state: PartitionState, now_ms: int) -> None:
        """In-sync replicas have their time from now on, as it isn't known when they last had everything."""
        self._followers = {
            replica: self._followers.get(replica) or Follower(replica, now_ms if replica in state.isr else LONG_AGO_MS)
            for replica in state.replicas
            if replica != self.broker_id
        }

    # The state, and changes of the ISR.

    @property
    def maximal_isr(self) -> frozenset[int]:
        return frozenset(self.state.isr) | frozenset(self._wanted or ())

    @property
    def wanted(self) -> tuple[int, ...] | None:
        """The change that is under way; it is asked for again when the one who carries it was replaced."""
        return self._wanted

    def update(self, state: PartitionState, now_ms: int) -> bool:
        """The metadata, or the answer to a change, has this state. False if it is not newer."""
        if state.leader_epoch != self.state.leader_epoch or state.partition_epoch <= self.state.partition_epoch:
            return False
        self._set(state, now_ms)
        return True

    def _set(self, state: PartitionState, now_ms: int) -> None:
        joined = set(state.isr).difference(self.state.isr)
        self.state = state
        self._wanted = self._retry_ms = None
        self._follow(state, now_ms)
        for replica in joined.intersection(self._followers):
            self._followers[replica].has_its_time(now_ms)

    def answered(self, code: int, state: PartitionState, now_ms: int) -> bool:
        """The change was granted (code 0) with this new state, or refused. True if the state is new.

        A refusal has the epochs of the request. Newer metadata may have ended that change already: then the answer says
        nothing about the one that is under way now.
        """
        if state.leader_epoch != self.state.leader_epoch or self._wanted is None:
            return False
        is_newer = state.partition_epoch > self.state.partition_epoch
        if code == ErrorCode.NONE:
            if not is_newer and (state.partition_epoch < self.state.partition_epoch or state.isr != self._wanted):
                return False
            self._set(state._replace(replicas=self.state.replicas), now_ms)
            return True
        if state.partition_epoch != self.state.partition_epoch:
            return False
        if code in _NOT_APPLIED:
            self._wanted = None
            self._retry_ms = now_ms + REJOIN_MS
        elif code not in _STATE_IS_OLD:
            self._retry_ms = now_ms + RETRY_MS
        return False

    def begin_isr_change(
        self, log_end: int, high_watermark: int, now_ms: int, live: Collection[int]
    ) -> tuple[int, ...] | None:
        """The ISR to ask for now, which is under way from then on; None when there is nothing to ask.

        Followers that are behind for too long leave, first of all; one that has everything committed, and all records
        from before this leader epoch, joins if its broker is in `live`. Who leaves has to fetch before it joins again:
        it may be dead, and have lost what it had.
        """
        if self._retry_ms is not None and now_ms >= self._retry_ms:
            self._retry_ms = None
            if self._wanted is not None:
                return self._wanted
        if self._wanted is not None:
            return None
        isr = self.state.isr
        staying = tuple(each for each in isr if not self._is_out_of_sync(each, log_end, now_ms))
        if len(staying) < len(isr):
            self._retry_ms = None
            for replica in set(isr).difference(staying).intersection(self._followers):
                self._followers[replica].has_left = True
            return self._want(staying)
        joining = self._joining(high_watermark, live) if self._retry_ms is None else None
        return None if joining is None else self._want((*isr, joining))

    def _want(self, isr: tuple[int, ...]) -> tuple[int, ...]:
        self._wanted = isr
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
        enough = max(high_watermark, self.epoch_start)
        for replica, follower in self._followers.items():
            if replica in self.state.isr or replica not in live or follower.has_left:
                continue
            if follower.log_end_offset >= enough:
                return replica
        return None

    def log_end_of(self, replica: int) -> int:
        """As the follower's last fetch said; UNKNOWN_OFFSET before it."""
        follower = self._followers.get(replica)
        return UNKNOWN_OFFSET if follower is None else follower.log_end_offset

    # Progress of followers.

    def fetched(self, progress: Progress, log_end: int) -> bool:
        """Count a follower's fetch; False if it is not about this epoch, this log or a follower of it."""
        follower = self._followers.get(progress.replica_id)
        if follower is None or progress.leader_epoch != self.state.leader_epoch:
            return False
        if 0 <= progress.replica_epoch < follower.broker_epoch or not 0 <= progress.fetch_offset <= log_end:
            # An earlier life of that broker, or a log that this one is not.
            return False
        follower.broker_epoch = progress.replica_epoch
        follower.fetched(progress.fetch_offset, progress.log_start_offset, log_end, progress.time_ms)
        return True

    def appended(self, log_end: int, now_ms: int) -> None:
        """The log has grown: who had everything until now is behind from now on."""
        known, self._known_end = self._known_end, log_end
        if known != log_end:
            for follower in self._followers.values():
                if follower.log_end_offset == known and follower.caught_up_ms < now_ms:
                    follower.caught_up_ms = now_ms

    def high_watermark(self, log_end: int, min_isr: int, now_ms: int, live: Collection[int]) -> int:
        """Up to where the log is committed as far as this leader knows; UNKNOWN_OFFSET if it does not know.

        Nothing is committed while there are fewer in-sync replicas than `min_isr`.
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
        """The smallest log start of the live replicas, for DeleteRecords; UNKNOWN_OFFSET until all have fetched."""
        starts = [each.log_start_offset for each in self._followers.values() if each.broker_id in live]
        return min([log_start, *starts])

    def next_check_ms(self, log_end: int, now_ms: int) -> int | None:
        """When somebody is behind for too long, or a change may be asked for again: later than `now_ms` when
        `begin_isr_change` was called with it. None if nothing is to come.
        """
        due = [] if self._retry_ms is None else [self._retry_ms]
        for follower in self._followers.values():
            too_late_ms = follower.caught_up_ms + self.max_lag_ms + 1
            if follower.log_end_offset != log_end and too_late_ms > now_ms:
                due.append(too_late_ms)
        return min(due, default=None)
