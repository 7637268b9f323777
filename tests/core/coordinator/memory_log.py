"""The surroundings of a coordinator in memory: a log that can refuse, lag and be read again, and a shard's test bed.

bed = Bed(lambda: MyShard(config), my_codec)
token = bed.ask(lambda asked: my_handler.handle(request, asked, bed.shard, bed.moment), version=5)
bed.answers[token]          # the reply; `Refused(code)` when the runtime answered
bed.advance(10_000)         # the virtual clock; timers run at their deadlines
bed.crash()                 # the shard is thrown away, and loaded again from the log
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple

from kafkad.core.coordinator.batches import RecordCodec
from kafkad.core.coordinator.runtime import Runtime, State
from kafkad.core.coordinator.shard import Caller, Moment, Outcome, Record, Shard, TxnMarkersToSend
from kafkad.core.coordinator.timers import DueTimers, ShardTimer
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.producers.producer_state import EndMarker
from kafkad.core.log.records.batch import Codec, assign_offsets, read_header
from kafkad.core.log.records.end_markers import build_end_marker
from kafkad.core.waiting.timing_wheel import TimingWheel
from tests.contexts import a_client, a_context


class Refused(NamedTuple):
    """The whole request got this code."""

    code: ErrorCode


class MemoryLog:
    """The batches as bytes. `refusal` refuses appends; with `is_lagging` the high watermark stays where it is."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.log_end_offset = 0
        self.replicated = 0
        self.is_lagging = False
        self.refusal: ErrorCode | None = None
        self.max_records: int | None = None
        """A batch with more is too large."""
        self.most_bytes: int | None = None

    @property
    def high_watermark(self) -> int:
        return self.replicated if self.is_lagging else self.log_end_offset

    def lag(self) -> None:
        """From now on nothing is replicated."""
        self.replicated = self.high_watermark
        self.is_lagging = True

    def append(self, batch: bytearray, moment: Moment) -> int:
        if self.refusal is not None:
            raise KafkaError(self.refusal)
        if self.max_records is not None and read_header(batch).records_count > self.max_records:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE)
        return self._write(batch)

    def end_transaction(self, producer_id: int, producer_epoch: int, *, is_commit: bool) -> int:
        """What the owner of the partition does with a marker; returns the marker's offset."""
        marker = EndMarker(commit=is_commit, coordinator_epoch=0, timestamp=0)
        return self._write(bytearray(build_end_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch)))

    def batches(self) -> Iterator[memoryview]:
        position = 0
        while position < len(self.written):
            yield memoryview(self.written[position])
            position += 1

    def _write(self, batch: bytearray) -> int:
        offset = self.log_end_offset
        assign_offsets(memoryview(batch), 0, offset, 0)
        self.written.append(bytes(batch))
        self.log_end_offset = read_header(batch).next_offset
        return offset


class Bed(Generic[Record]):
    """One shard with its runtime, a log and a clock. Every request may be answered once, or this fails."""

    def __init__(
        self,
        make_shard: Callable[[], Shard[Record]],
        codec: RecordCodec[Record],
        *,
        now_ms: int = 1_000_000,
        wall_ms: int = 1_700_000_000_000,
        compression: Codec = Codec.NONE,
    ) -> None:
        self.log = MemoryLog()
        self.moment = Moment(now_ms, wall_ms)
        self.answers: dict[int, Any] = {}
        self.asked: list[int] = []
        self.markers: list[TxnMarkersToSend] = []
        self.lines: list[str] = []
        self.hosts: list[str] = []
        """Who has caused each line."""
        self.rebalances_ms: list[int] = []
        self._make_shard = make_shard
        self._codec = codec
        self._compression = compression
        self._next_token = 1
        self.start()

    # What the runtime says.

    def reply(self, token: int, reply: object) -> None:
        assert token not in self.answers, f"{token} was answered twice: {self.answers[token]}, {reply}"
        self.answers[token] = reply

    def fail(self, token: int, code: ErrorCode) -> None:
        self.reply(token, Refused(code))

    def order_markers(self, requested: TxnMarkersToSend) -> None:
        self.markers.append(requested)

    def log_line(self, line: str, host: str) -> None:
        self.lines.append(line)
        self.hosts.append(host)

    def rebalanced(self, elapsed_ms: int) -> None:
        self.rebalances_ms.append(elapsed_ms)

    # What a test does.

    def start(self) -> None:
        """A new shard, loaded from the log."""
        self.wheel: TimingWheel[ShardTimer] = TimingWheel(start_ms=self.moment.monotonic_ms)
        self.shard: Any = self._make_shard()
        self.runtime: Runtime[Record] = Runtime(
            self.shard, self.log, self._codec, self.wheel, self, compression=self._compression
        )
        while not self.runtime.load_step(self.moment):
            assert self.runtime.state is State.LOADING

    def ask(
        self,
        rule: Callable[[Caller], Outcome[Record]],
        *,
        version: int = 0,
        client_id: str = "client",
        shares_batch: bool = False,
    ) -> int:
        """A request comes, and `rule` says what becomes of it; returns its token.

        It is alone in its pass, unless it `shares_batch`: then others may be before and behind it.
        """
        if not shares_batch:
            self.runtime.settle(self.moment)
        token = self._next_token
        self._next_token += 1
        self.asked.append(token)
        self.runtime.begin(token)
        self.runtime.perform(rule(Caller(token, a_context(version, client=a_client(client_id)))), self.moment)
        if not shares_batch:
            self.runtime.settle(self.moment)
        return token

    def perform(self, outcome: Outcome[Record]) -> None:
        self.runtime.perform(outcome, self.moment)

    def advance(self, ms: int) -> None:
        """Let time pass; whatever falls due on the way happens at its own time."""
        until = self.moment.monotonic_ms + ms
        while True:
            due = self._next_due_ms()
            is_last = due is None or due > until
            now_ms = max(self.moment.monotonic_ms, until if due is None or is_last else due)
            self.moment = Moment(now_ms, self.moment.wall_ms + now_ms - self.moment.monotonic_ms)
            DueTimers(self.wheel).run(self.moment)
            self.runtime.expire_deferred(self.moment)
            if is_last:
                return

    def _next_due_ms(self) -> int | None:
        both = (self.wheel.next_expiration_ms(), self.runtime.next_deadline_ms)
        return min((deadline for deadline in both if deadline is not None), default=None)

    def replicate(self) -> None:
        """The replicas have caught up."""
        self.log.replicated = self.log.log_end_offset
        self.runtime.advanced(self.moment)

    def write_marker(self, producer_id: int, producer_epoch: int, *, is_commit: bool) -> None:
        """The transaction coordinator ends a transaction that has offsets in this partition."""
        offset = self.log.end_transaction(producer_id, producer_epoch, is_commit=is_commit)
        self.runtime.transaction_ended(producer_id, is_commit, offset)

    def markers_written(self, transactional_id: str, producer_epoch: int) -> None:
        self.runtime.markers_written(transactional_id, producer_epoch, self.moment)

    def crash(self) -> None:
        """kill -9: nobody who waits is ever answered, and the next incarnation knows what is in the log."""
        self.asked = [token for token in self.asked if token in self.answers]
        self.start()

    def resign(self) -> None:
        """Leadership is gone; whoever waits hears of it."""
        self.runtime.unload(self.moment)

    def unanswered(self) -> list[int]:
        return [token for token in self.asked if token not in self.answers]
