"""The runtime of one shard performs outcomes: append, replay, wait for the high watermark, respond.

Every request that `begin` announced gets exactly one response: from the shard, by an error, or by `unload`. No response
depends on anything that a crash could undo: responses without records wait until the log below them is committed.
"""

from collections import deque
from collections.abc import Generator, Hashable, Iterator
from enum import Enum
from typing import Generic, Protocol

from kafkad.core.coordinator.batches import Ended, RecordCodec, pack_records, unpack_batch
from kafkad.core.coordinator.shard import Moment, Outcome, Producer, Record, Shard, TxnMarkersToSend
from kafkad.core.coordinator.timers import ShardTimer, ShardTimers
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.records.batch import Codec
from kafkad.core.waiting.timing_wheel import TimingWheel

_CODES_OF_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The code for a client when an append failed. Clients do not know the coordinator's partition."""
STEP_RECORDS = 50
"""Records per step of loading: well below the 5 ms that a loop pass may take."""
RETRY_MS = 500
"""The pause before a timer is repeated after the append of its records failed."""
SHARED_RECORDS = 500
"""A shared batch is written when it has this many records; a single outcome may have more."""


class CoordinatorLog(Protocol):
    """The shard's partition, as the runtime uses it."""

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def most_bytes(self) -> int | None:
        """The limit of an uncompressed batch; None: the log compresses the batch before its check."""

    def append(self, batch: bytearray, moment: Moment) -> int:
        """Append one batch and return its base offset. Raises `KafkaError` if nothing was appended."""

    def batches(self) -> Iterator[memoryview]:
        """All batches from the start of the log to its end, including those appended during the iteration."""


class Recipient(Protocol):
    """Receives a runtime's responses and orders."""

    def reply(self, token: int, reply: object) -> None: ...

    def fail(self, token: int, code: ErrorCode) -> None:
        """Respond to request `token` with the error `code`, in the format of its API."""

    def order_markers(self, requested: TxnMarkersToSend) -> None: ...

    def log_line(self, line: str, host: str) -> None: ...

    def rebalanced(self, elapsed_ms: int) -> None:
        """A group has completed a rebalance, which took `elapsed_ms`."""


class State(Enum):
    """LOADING: no requests yet (→ ACTIVE, UNLOADED). ACTIVE: → UNLOADED. UNLOADED: all requests have responses."""

    LOADING = "loading"
    ACTIVE = "active"
    UNLOADED = "unloaded"


class _Deferred(Generic[Record]):
    """An outcome that waits for the high watermark. Plain and slotted: there is one for every request."""

    __slots__ = ("deadline_ms", "outcome", "up_to")

    def __init__(self, outcome: Outcome[Record], up_to: int, deadline_ms: int) -> None:
        self.outcome = outcome
        self.up_to = up_to
        self.deadline_ms = deadline_ms


class Runtime(Generic[Record]):
    """Runs one shard. `timeout_ms`: the most time that the replication of an append may take."""

    def __init__(
        self,
        shard: Shard[Record],
        log: CoordinatorLog,
        codec: RecordCodec[Record],
        wheel: TimingWheel[ShardTimer],
        recipient: Recipient,
        *,
        compression: Codec = Codec.NONE,
        timeout_ms: int = 5_000,
    ) -> None:
        self.shard = shard
        self.state = State.LOADING
        self.compression = compression
        self.timeout_ms = timeout_ms
        self.replayed = 0
        self._log = log
        self._codec = codec
        self._timers = ShardTimers(wheel, self.expired)
        self._recipient = recipient
        self._open: set[int] = set()
        self._collected: list[Outcome[Record]] = []
        """The outcomes of the next shared batch: decided, but neither appended nor replayed."""
        self._collected_records = 0
        self._failed_appends = 0
        self._deferred: deque[_Deferred[Record]] = deque()
        self._decided: deque[tuple[int, TxnMarkersToSend]] = deque()
        """Markers of decisions whose replication timed out; ordered when the high watermark passes the decisions."""
        self._loading = self._load()
        self._finishing: Generator[Outcome[Record], None, Outcome[Record]] | None = None
        """The last steps of loading, after the whole log is replayed."""

    # Loading.

    def load_step(self, moment: Moment) -> bool:
        """Replay some more; True when the shard is loaded and accepts requests. Raises `MalformedRecords`."""
        assert self.state is State.LOADING
        for _ in self._loading:
            return False
        if self._finishing is None:
            self._finishing = self.shard.loaded(moment)
        try:
            outcome = next(self._finishing)
        except StopIteration as finished:
            self.state, self._finishing = State.ACTIVE, None
            self.perform(finished.value, moment)
            return True
        self._perform(outcome, moment)
        return False

    def _load(self) -> Iterator[None]:
        since_step = 0
        for batch in self._log.batches():
            for row in unpack_batch(batch, self._codec.decode):
                if isinstance(row, Ended):
                    self.shard.transaction_ended(row.producer_id, row.is_commit, row.offset)
                else:
                    self.shard.replay(row.record, row.offset, row.producer)
                self.replayed += 1
                since_step += 1
                if since_step == STEP_RECORDS:
                    since_step = 0
                    yield

    # Requests and timers.

    @property
    def has_collected(self) -> bool:
        """Whether `settle` has work to do."""
        return bool(self._collected)

    @property
    def has_deferred(self) -> bool:
        """Whether outcomes wait for the high watermark."""
        return bool(self._deferred) or bool(self._decided)

    @property
    def next_deadline_ms(self) -> int | None:
        """The deadline of `expire_deferred`; the wheel handles timers."""
        return self._deferred[0].deadline_ms if self._deferred else None

    def begin(self, token: int) -> None:
        """Announce a request, which gets one response."""
        assert self.state is State.ACTIVE and token not in self._open
        self._open.add(token)

    def fail(self, token: int, code: ErrorCode) -> None:
        """A rule rejected the request, without an outcome."""
        self._fail(token, code)

    def perform(self, outcome: Outcome[Record], moment: Moment) -> None:
        """Perform an outcome and its following outcomes; outcomes that share a batch are collected.

        Before a request that does not share a batch reads the shard, its caller has to call `settle`.
        """
        assert self.state is State.ACTIVE
        if outcome.shares_batch and outcome.records:
            self._collected.append(outcome)
            self._collected_records += len(outcome.records)
            if self._collected_records >= SHARED_RECORDS:
                self.settle(moment)
            return
        self.settle(moment)
        self._perform(outcome, moment)

    def _perform(self, outcome: Outcome[Record], moment: Moment) -> bool:
        """False if an append failed."""
        failed = self._failed_appends
        following: Outcome[Record] | None = outcome
        while following is not None:
            following = self._perform_one(following, moment)
        return self._failed_appends == failed

    def settle(self, moment: Moment) -> None:
        """Write the collected outcomes as one batch."""
        if not self._collected:
            return
        collected, self._collected = self._collected, []
        self._collected_records = 0
        if len(collected) > 1:
            try:
                self._append([record for outcome in collected for record in outcome.records], None, moment)
            except KafkaError as error:
                if error.code not in _TOO_LARGE:
                    for outcome in collected:
                        self._fail_outcome(outcome, error.code, moment)
                    return
            else:
                for outcome in collected:
                    self._appended(outcome, moment)
                return
        for outcome in collected:
            self._perform_one(outcome, moment)

    def expired(self, timer: ShardTimer, moment: Moment) -> None:
        """`timer` is due. If the append of its outcome fails, or during loading, it is repeated, as in Apache Kafka."""
        self.settle(moment)
        if not self._timers.take(timer):
            return
        # During loading, the outcome of a timer may require state that is not loaded yet.
        is_written = self.state is State.ACTIVE and self._perform(self.shard.expired(timer.key, moment), moment)
        if not is_written and self._timers.deadline_of(timer.key) is None:
            self._timers.set(timer.key, moment.monotonic_ms + RETRY_MS)

    def markers_written(self, transactional_id: str, producer_epoch: int, moment: Moment) -> None:
        self.settle(moment)
        self.perform(self.shard.markers_written(transactional_id, producer_epoch, moment), moment)

    def transaction_ended(self, producer_id: int, is_commit: bool, offset: int) -> None:
        """A marker was appended to this partition: replay it, unless loading will reach it."""
        if self.state is State.ACTIVE or self._finishing is not None:
            self.shard.transaction_ended(producer_id, is_commit, offset)

    def advanced(self, moment: Moment) -> None:
        """The high watermark may have advanced: respond to the requests below it."""
        deferred = self._deferred
        while deferred and deferred[0].up_to <= self._log.high_watermark:
            following = self._finish(deferred.popleft().outcome, moment)
            if following is not None:
                self.perform(following, moment)
        while self._decided and self._decided[0][0] <= self._log.high_watermark:
            self._recipient.order_markers(self._decided.popleft()[1])

    def expire_deferred(self, moment: Moment) -> None:
        """The replication timed out: the records stay in the log, but their requests get an error."""
        while self._deferred and self._deferred[0].deadline_ms <= moment.monotonic_ms:
            row = self._deferred.popleft()
            following = self._fail_outcome(row.outcome, ErrorCode.REQUEST_TIMED_OUT, moment)
            # The decision is in the log and has to be carried out, but only after it is committed.
            self._decided.extend((row.up_to, requested) for requested in row.outcome.markers)
            if following is not None:
                self.perform(following, moment)

    def unload(self, moment: Moment) -> None:
        """The leadership ended or the log failed: all open requests get NOT_COORDINATOR."""
        was_active = self.state is State.ACTIVE
        self.state = State.UNLOADED
        self._timers.clear()
        collected, self._collected = self._collected, []
        for outcome in collected:
            self._fail_outcome(outcome, ErrorCode.NOT_COORDINATOR, moment)
        deferred, self._deferred = self._deferred, deque()
        self._decided.clear()
        for row in deferred:
            following = self._fail_outcome(row.outcome, ErrorCode.NOT_COORDINATOR, moment)
            self._send_last_replies(following)
        if was_active:
            self._send_last_replies(self.shard.unloaded())
        for token in list(self._open):
            self._fail(token, ErrorCode.NOT_COORDINATOR)

    # One outcome.

    def _perform_one(self, outcome: Outcome[Record], moment: Moment) -> Outcome[Record] | None:
        if outcome.records:
            try:
                self._append(outcome.records, outcome.producer, moment)
            except KafkaError as error:
                self._failed_appends += 1
                return self._fail_outcome(outcome, error.code, moment)
        return self._appended(outcome, moment)

    def _appended(self, outcome: Outcome[Record], moment: Moment) -> Outcome[Record] | None:
        """Perform the other effects of an outcome whose records are in the log."""
        for key, deadline_ms in outcome.timers:
            self._timers.set(key, deadline_ms)
        for line in outcome.log_lines:
            self._recipient.log_line(line, outcome.host)
        for elapsed_ms in outcome.rebalances_ms:
            self._recipient.rebalanced(elapsed_ms)
        if not (outcome.replies or outcome.after or outcome.markers):
            return None
        up_to = self._log.log_end_offset
        if not self._deferred and up_to <= self._log.high_watermark:
            return self._finish(outcome, moment)
        self._deferred.append(_Deferred(outcome, up_to, moment.monotonic_ms + self.timeout_ms))
        return None

    def _append(self, records: list[Record], producer: Producer | None, moment: Moment) -> None:
        most_bytes = self._log.most_bytes if self.compression is Codec.NONE else None
        batch = pack_records(records, self._codec.encode, moment, producer, self.compression, most_bytes)
        offset = self._log.append(batch, moment)
        for record in records:
            self.shard.replay(record, offset, producer)
            offset += 1

    def _finish(self, outcome: Outcome[Record], moment: Moment) -> Outcome[Record] | None:
        """The records are committed: respond."""
        for token, reply in outcome.replies:
            self._reply(token, reply)
        for requested in outcome.markers:
            self._recipient.order_markers(requested)
        return outcome.follow(ErrorCode.NONE, moment)

    def _fail_outcome(self, outcome: Outcome[Record], code: ErrorCode, moment: Moment) -> Outcome[Record] | None:
        code = _CODES_OF_APPEND_ERRORS.get(code, code)
        for token, _reply in outcome.replies:
            self._fail(token, code)
        return outcome.follow(code, moment)

    def _send_last_replies(self, outcome: Outcome[Record] | None) -> None:
        """During `unload`, only the replies of an outcome count."""
        while outcome is not None:
            for token, reply in outcome.replies:
                if token in self._open:
                    self._reply(token, reply)
            outcome = None

    def _reply(self, token: int, reply: object) -> None:
        assert token in self._open, f"request {token} has a response already"
        self._open.remove(token)
        self._recipient.reply(token, reply)

    def _fail(self, token: int, code: ErrorCode) -> None:
        assert token in self._open, f"request {token} has a response already"
        self._open.remove(token)
        self._recipient.fail(token, code)

    def deadline_of(self, key: Hashable) -> int | None:
        """The deadline of the timer `key`; None if it is not set."""
        return self._timers.deadline_of(key)


_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
"""With these errors the outcomes did not fit into one batch: each gets its own."""
