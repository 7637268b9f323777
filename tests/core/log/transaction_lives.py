"""The life of one partition with transactions, drawn from a seed: written, read, killed, cut, started again.

After every step the log says what a naive look at its batches says: where the last stable offset is, which
transactions are in the index files, and what a consumer is given.
"""

from collections.abc import Callable
from itertools import pairwise
from random import Random

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.coordinated import append_end_marker
from kafkad.core.log.segments.removal import delete_records_before, delete_segments, remove_files, truncate_to
from kafkad.core.ports import NoSpaceLeft
from tests.core.log.batches import NOW, batch, load
from tests.core.log.committed_reading import Content, Outcome, consume, content
from tests.core.log.fake_store import Crashed, FakeStore

PRODUCERS = 4


class Incarnation:
    """One partition. Producers 0 and 1 are of transaction version 1, the others of version 2."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = FakeStore()
        self.log = load(self.store)
        self.epochs = [0] * PRODUCERS
        self.sequences = [0] * PRODUCERS
        self.synced = 0
        self.log_start = 0
        self.was_cut = False
        """Whether records were deleted from the front: then a transaction's beginning may be unknown after a start."""

    def live(self, steps: int) -> None:
        acts: list[tuple[Callable[[], None], int]] = [
            (self.write, 12),
            (self.end, 8),
            (self.replicate, 5),
            (self.roll, 1),
            (self.flush, 1),
            (self.run_out_of_space, 1),
            (self.kill, 1),
            (self.lose_power, 1),
            (self.restart, 1),
            (self.crash, 1),
            (self.cut, 1),
            (self.delete, 1),
        ]
        chosen, weights = zip(*acts, strict=True)
        for _ in range(steps):
            self.random.choices(chosen, weights)[0]()
            self.check()

    # Writing.

    def write(self) -> None:
        producer = self.random.randrange(PRODUCERS)
        count = self.random.randint(1, 3)
        is_open = producer in self.outcome().open
        is_transactional = is_open or self.random.random() < 0.8
        records = batch(
            count,
            timestamp=NOW,
            size=self.random.choice([10, 40, 90]),
            producer_id=producer,
            sequence=self.sequences[producer],
            epoch=self.epochs[producer],
            is_transactional=is_transactional,
        )
        guard = 0
        if is_transactional:
            guard = self.log.producers.begin_verification(
                producer, self.epochs[producer], self.sequences[producer], NOW, supports_epoch_bump=producer > 1
            )
        self.log.append_as_leader(records, leader_epoch=0, now_ms=NOW, produce_version=12, guard=guard)
        self.sequences[producer] += count

    def end(self) -> None:
        known = [producer for producer in range(PRODUCERS) if self.log.producers.get(producer) is not None]
        if known:
            self.end_of(self.random.choice(known), commit=self.random.random() < 0.5)

    def end_of(self, producer: int, *, commit: bool) -> None:
        bumps = producer > 1
        epoch = self.epochs[producer] + bumps
        append_end_marker(
            self.log,
            producer_id=producer,
            producer_epoch=epoch,
            coordinator_epoch=1,
            commit=commit,
            transaction_version=2 if bumps else 1,
            leader_epoch=0,
            now_ms=NOW,
        )
        if bumps:
            self.epochs[producer], self.sequences[producer] = epoch, 0

    def run_out_of_space(self) -> None:
        """Whichever file is full: the marker is not there, and its transaction is as open as before."""
        # One that began in records which were deleted may be unknown, and its end needs no entry in an index.
        first = self.log.last_stable.offset
        known = [producer for producer, began in self.outcome().open.items() if began >= first]
        if not known:
            return
        before = self.log.log_end_offset, self.log.last_stable
        self.store.full_for = self.random.choice([".log", ".txnindex"])
        try:
            self.end_of(self.random.choice(known), commit=False)
            raise AssertionError("a full disk took a marker")
        except NoSpaceLeft:
            assert (self.log.log_end_offset, self.log.last_stable) == before
        finally:
            self.store.full_for = None

    def replicate(self) -> None:
        ends = [row.header.next_offset for row in self.batches()]
        self.log.advance_high_watermark(self.random.choice([0, *ends]))

    def roll(self) -> None:
        self.log.roll(self.log.log_end_offset, NOW)

    def flush(self) -> None:
        self.log.request_flush(NOW)
        effect = self.log.take_flush()
        if effect is not None:
            self.log.flush(effect)
        self.synced = self.log.recovery_point

    # Ends of processes and of machines.

    def kill(self) -> None:
        end = self.log.log_end_offset
        self.store.kill()
        self.begin_again(was_clean=False)
        assert self.log.log_end_offset == end

    def lose_power(self) -> None:
        self.store.lose_power(self.random)
        self.begin_again(was_clean=False)

    def restart(self) -> None:
        self.log.close()
        self.begin_again(was_clean=True)

    def crash(self) -> None:
        """In the middle of anything, starting again included; some of it is lost with the power."""
        self.store.crash_at = self.store.changes + self.random.randint(1, 25)
        self.store.tear = self.random.choice([None, 0.0, 0.5])
        acts = [self.write, self.end, self.roll, self.flush, self.kill_softly]
        try:
            for _ in range(6):
                self.random.choice(acts)()
        except Crashed:
            pass
        self.store.crash_at = self.store.tear = None
        if self.random.random() < 0.5:
            self.store.lose_power(self.random)
        self.begin_again(was_clean=False)

    def kill_softly(self) -> None:
        self.begin_again(was_clean=False)

    def begin_again(self, *, was_clean: bool) -> None:
        synced = self.log.log_end_offset if was_clean else min(self.synced, self.log.recovery_point)
        self.log = load(self.store, was_clean=was_clean, recovery_point=synced, log_start_offset=self.log_start)
        self.synced = self.log.recovery_point
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.ask_the_log()

    def cut(self) -> None:
        """A new leader has less."""
        high_watermark = self.log.high_watermark.offset
        ends = [row.header.next_offset for row in self.batches()]
        offset = self.random.choice([end for end in ends if end >= high_watermark] or [high_watermark])
        for effect in truncate_to(self.log, offset, NOW):
            remove_files(self.log, effect)
        self.synced = min(self.synced, self.log.recovery_point)
        self.ask_the_log()

    def delete(self) -> None:
        """Records that are decided, by hand or by retention."""
        stable = self.log.last_stable.offset
        if self.random.random() < 0.5:
            offset = self.random.randint(min(self.log_start, stable), stable)
            removed = delete_records_before(self.log, offset)
        else:
            bases = self.log.segments.base_offsets
            complete = [base for base, end in pairwise(bases) if end <= stable]
            removed = delete_segments(self.log, max(complete), NOW) if complete else []
        for effect in removed:
            remove_files(self.log, effect)
        self.was_cut = self.was_cut or self.log.log_start_offset > self.log_start
        self.log_start = self.log.log_start_offset

    def ask_the_log(self) -> None:
        """Producers learn from refusals where they are; here they look."""
        for producer in range(PRODUCERS):
            entry = self.log.producers.get(producer)
            if entry is not None and entry.producer_epoch >= 0:
                self.epochs[producer] = entry.producer_epoch
                self.sequences[producer] = entry.last_sequence + 1
            else:
                self.sequences[producer] = 0

    # What must be true.

    def batches(self) -> list[Content]:
        return content(self.store, self.log.log_end_offset)

    def outcome(self) -> Outcome:
        return Outcome(self.batches(), self.log.high_watermark.offset)

    def check(self) -> None:
        log, outcome = self.log, self.outcome()
        stable = log.last_stable
        if self.was_cut:
            # Where a transaction began that lost its beginning, and then its end with the power, nobody knows.
            outcome.last_stable = stable.offset
        assert stable.offset == outcome.last_stable
        assert stable == log.position_of(stable.offset) or stable.offset == log.high_watermark.offset
        if not self.was_cut:
            index = {row.base_offset: row.aborted.entries() for row in log.segments if row.aborted.size}
            assert index == outcome.index
        wanted = [offset for offset in outcome.committed(self.batches()) if offset >= log.log_start_offset]
        start = self.random.choice([log.log_start_offset, *wanted])
        wanted = [offset for offset in wanted if offset >= start]
        assert consume(log, start, self.random.choice([1, 200, 500, 5000])) == wanted
        self.check_refusals()

    def check_refusals(self) -> None:
        """An old epoch, and a batch that the coordinator knows nothing of."""
        producer = self.random.randrange(PRODUCERS)
        entry = self.log.producers.get(producer)
        if entry is None or entry.current_txn_first_offset is not None:
            return
        records = batch(1, producer_id=producer, sequence=0, epoch=self.epochs[producer] + 1, is_transactional=True)
        try:
            self.log.append_as_leader(records, leader_epoch=0, now_ms=NOW, produce_version=12, guard=0)
            raise AssertionError("a batch outside of every transaction was taken")
        except KafkaError as error:
            assert error.code is ErrorCode.INVALID_TXN_STATE
