"""A partition log against a list: whatever is done to it, and however it dies, it holds what the list says."""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkad.core.log.effects import FlushLog, UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.reading.log_reader import LogReader
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.segments.removal import (
    delete_records_before,
    delete_segments,
    remove_files,
    truncate_fully_and_start_at,
    truncate_to,
)
from kafkad.core.ports import NoSpaceLeft
from tests.amounts import amount
from tests.core.log.batches import NOW, append, batch, load
from tests.core.log.fake_store import Crashed, FakeStore
from tests.core.log.log_content import batch_offsets, check_indexes

PRODUCERS = st.integers(-1, 2)
Span = tuple[int, int]


class PartitionLogModel(RuleBasedStateMachine):
    """The model: spans of batches in order, the log start, and how far everything is known to be on disk."""

    flushes: Bundle[tuple[PartitionLog, FlushLog | None]] = Bundle("flushes")

    @initialize()
    def start(self) -> None:
        self.store = FakeStore()
        self.log: PartitionLog = load(self.store)
        self.batches: list[Span] = []
        self.log_start = 0
        self.synced = 0
        self.end = 0
        self.epoch = 0
        self.now_ms = NOW
        self.sequences: dict[int, int] = {}
        self.last_sent: dict[int, tuple[int, int, int]] = {}

    @rule(count=st.integers(1, 4), producer=PRODUCERS, backwards=st.integers(0, 50))
    def append(self, count: int, producer: int, backwards: int) -> None:
        self.now_ms += 7
        sequence = self.sequences.get(producer, 0)
        records = batch(count, timestamp=self.now_ms - backwards, producer_id=producer, sequence=sequence)
        info = append(self.log, records, epoch=self.epoch, now_ms=self.now_ms)
        assert (info.base_offset, info.last_offset, info.duplicate) == (self.end, self.end + count - 1, False)
        self.batches.append((info.base_offset, info.last_offset))
        self.end += count
        if producer >= 0:
            self.last_sent[producer] = (sequence, count, info.base_offset)
            self.sequences[producer] = sequence + count

    @precondition(lambda self: self.repeatable())
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        producer = data.draw(st.sampled_from(self.repeatable()))
        sequence, count, base_offset = self.last_sent[producer]
        info = append(self.log, batch(count, producer_id=producer, sequence=sequence), epoch=self.epoch)
        assert info.duplicate
        assert info.base_offset == base_offset

    def repeatable(self) -> list[int]:
        """Producers whose last batch is still in the log: of others a restart may know nothing, as in Kafka."""
        return sorted(
            producer for producer, (_, _, base_offset) in self.last_sent.items() if base_offset >= self.log_start
        )

    @rule(count=st.integers(1, 3), gap=st.integers(0, 3))
    def append_as_follower(self, count: int, gap: int) -> None:
        records = batch(count, base_offset=self.end + gap, leader_epoch=self.epoch)
        info = append_as_follower(self.log, records, leader_epoch=self.epoch, now_ms=self.now_ms)
        self.batches.append((info.base_offset, info.last_offset))
        self.end = info.last_offset + 1

    @rule(room=st.integers(0, 300))
    def append_to_a_full_disk(self, room: int) -> None:
        self.store.free_bytes = room
        try:
            append(self.log, batch(5), epoch=self.epoch, now_ms=self.now_ms)
            self.batches.append((self.end, self.end + 4))
            self.end += 5
        except NoSpaceLeft:
            assert self.log.log_end_offset == self.end
        finally:
            self.store.free_bytes = None

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(self.end, self.now_ms)

    @rule(target=flushes)
    def begin_flush(self) -> tuple[PartitionLog, FlushLog | None]:
        self.log.request_flush(self.now_ms)
        return self.log, self.log.take_flush()

    @rule(begun=flushes)
    def end_flush(self, begun: tuple[PartitionLog, FlushLog | None]) -> None:
        log, effect = begun
        if log is not self.log or effect is None:
            return
        effect.perform()
        self.log.flushed(effect)
        if effect.truncations == self.log.truncations:
            self.synced = max(self.synced, effect.up_to)
        assert self.log.recovery_point == self.synced

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.log.advance_high_watermark(self.end)
        offset = data.draw(st.integers(self.log_start, self.end))
        self.perform(delete_records_before(self.log, offset))
        self.log_start = max(self.log_start, offset)

    @rule(data=st.data())
    def retention(self, data: st.DataObject) -> None:
        self.log.advance_high_watermark(self.end)
        base = data.draw(st.sampled_from(self.log.segments.base_offsets))
        self.perform(delete_segments(self.log, base, self.now_ms))
        self.log_start = max(self.log_start, self.log.segments[0].base_offset)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end + 2))
        first = self.log.segments[0].base_offset
        self.perform(truncate_to(self.log, offset, self.now_ms))
        if offset >= self.end:
            return
        self.batches = [span for span in self.batches if span[1] < offset]
        if offset < first:
            self.batches = []
        self.end = self.log.log_end_offset
        assert self.end <= max(offset, first if offset >= first else offset)
        self.after_cut()

    @rule(offset=st.integers(0, 100))
    def start_anew(self, offset: int) -> None:
        self.perform(truncate_fully_and_start_at(self.log, offset, self.now_ms))
        self.batches = []
        self.log_start = self.end = offset
        self.after_cut()

    def after_cut(self) -> None:
        self.log_start = min(self.log_start, self.end)
        self.synced = self.log.recovery_point
        assert self.synced <= self.end
        self.forget_producers()

    def forget_producers(self) -> None:
        """Which producers survive is the producers' tests' matter; new ids keep sequences simple."""
        self.last_sent.clear()
        self.sequences = {
            producer: entry.last_sequence + 1
            for producer in range(3)
            if (entry := self.log.producers.get(producer)) is not None
        }

    def perform(self, effects: list[UnlinkFiles]) -> None:
        for effect in effects:
            remove_files(self.log, effect)

    @rule(seed=st.integers(0, 10_000))
    def lose_power(self, seed: int) -> None:
        self.store.lose_power(Random(seed))
        self.reload(was_clean=False)
        assert self.log.log_end_offset >= min(self.synced, self.end)
        self.forget_lost()

    @rule()
    def kill(self) -> None:
        self.store.kill()
        self.reload(was_clean=False)
        assert self.log.log_end_offset == self.end

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.synced = self.log.recovery_point
        assert self.synced == self.end
        self.reload(was_clean=True)
        assert self.log.log_end_offset == self.end

    @rule(seed=st.integers(0, 10_000), after=st.integers(1, 30), tear=st.sampled_from([None, 0.0, 0.5]))
    def crash_while_rolling_and_recovering(self, seed: int, after: int, tear: float | None) -> None:
        self.store.crash_at, self.store.tear = self.store.changes + after, tear
        try:
            self.log.roll(self.end, self.now_ms)
            self.log.flush()
            self.synced = self.log.recovery_point
            self.reload(was_clean=False)
        except Crashed:
            pass
        self.store.lose_power(Random(seed))
        self.reload(was_clean=False)
        assert self.log.log_end_offset >= self.synced
        self.forget_lost()

    def reload(self, *, was_clean: bool) -> None:
        self.log = load(
            self.store,
            was_clean=was_clean,
            recovery_point=self.synced,
            log_start_offset=self.log_start,
            now_ms=self.now_ms,
        )

    def forget_lost(self) -> None:
        """Each segment keeps a prefix of what it held. As in Kafka, a lost tail does not take the next segment along:
        to recovery it looks like the gaps that compaction leaves."""
        self.end = self.log.log_end_offset
        first = self.log.segments[0].base_offset
        held = set(batch_offsets(self.store, self.end))
        assert held <= set(self.batches)
        assert all(span in held for span in self.batches if first <= span[0] and span[1] < self.synced)
        self.batches = [span for span in self.batches if span in held]
        self.synced = self.log.recovery_point
        self.forget_producers()

    @invariant()
    def holds_what_the_model_says(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_end_offset == self.end
        assert self.log.log_start_offset == self.log_start
        held = batch_offsets(self.store, self.end)
        first = self.log.segments[0].base_offset
        assert held == [span for span in self.batches if span[0] >= first]
        assert first <= self.log_start
        starts = [entry.start_offset for entry in self.log.epochs.entries]
        assert starts == sorted(set(starts))
        assert all(start <= self.end for start in starts)

    @invariant()
    def readers_find_every_batch(self) -> None:
        if not hasattr(self, "log"):
            return
        reader = LogReader(self.store, self.log.manifest())
        for base_offset, last_offset in self.batches[-6:]:
            if base_offset >= self.log.segments[0].base_offset:
                extent = reader.locate(last_offset, self.log.log_end, 1)
                content = self.store.read(f"{extent.segment_base:020d}.log")
                found = int.from_bytes(content[extent.position : extent.position + 8], "big")
                assert found == base_offset

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            check_indexes(self.store)


TestPartitionLogModel = PartitionLogModel.TestCase
TestPartitionLogModel.settings = settings(max_examples=amount("partition_log_examples"), stateful_step_count=50)
