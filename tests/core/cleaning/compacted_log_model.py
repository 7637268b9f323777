"""A compacted log against a list: whatever is done to it in the middle of a pass, and however it dies, no record is
lost, doubled, reordered or resurrected, and the latest value of a key stays.
"""

from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkad.core.cleaning.cleaning_pass import CleaningPass
from kafkad.core.cleaning.record_filter import LatestOfEachKey
from kafkad.core.log.coordinated import append_end_marker
from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import Codec
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.segments import replacement
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.layout import CLEANED, file_name
from kafkad.core.log.segments.removal import (
    cleanable_end_of,
    delete_records_before,
    delete_segments,
    remove_files,
    request_sealed_sync,
)
from kafkad.core.log.segments.segment import Segment
from tests.core.cleaning.cleaned_log import CONFIG, aborted_in, batches_of, last_records_of, sources_of
from tests.core.cleaning.compacted_log_truth import Marker, Record, Truth
from tests.core.log.batches import NOW, load
from tests.core.log.fake_store import Crashed, FakeStore
from tests.core.log.log_content import check_indexes
from tests.core.log.segments.swapping import replace_segments

SMALL = replace(CONFIG, segment_bytes=1200)
TRANSACTIONAL = (1, 2)
CODECS = [Codec.NONE, Codec.LZ4]
KEYS = [b"a", b"b", b"c", b"d", None]


class CompactedLogModel(RuleBasedStateMachine):
    """One log, one pass at a time."""

    stable_end = staticmethod(cleanable_end_of)

    @initialize()
    def start(self) -> None:
        self.store = FakeStore()
        self.log: PartitionLog = load(self.store, config=SMALL)
        self.truth = Truth()
        self.sequences = dict.fromkeys((-1, 0, *TRANSACTIONAL), 0)
        self.open: dict[int, int] = {}
        self.now_ms = NOW
        self.steps: Generator[None, None, None] | None = None
        self.unlinks: list[UnlinkFiles] = []

    # What clients do.

    @rule(
        producer=st.sampled_from([-1, -1, 0, *TRANSACTIONAL]),
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4),
        size=st.sampled_from([0, 20, 150]),
        tombstones=st.integers(0, 15),
        codec=st.sampled_from(CODECS),
    )
    def append(self, producer: int, keys: list[bytes | None], size: int, tombstones: int, codec: Codec) -> None:
        self._append(producer, keys, size, tombstones, codec)

    def _append(self, producer: int, keys: list[bytes | None], size: int, tombstones: int, codec: Codec) -> None:
        base = self.log.log_end_offset
        transaction = self._transaction_of(producer) if producer in TRANSACTIONAL else None
        records = []
        for number, key in enumerate(keys):
            value = None if tombstones >> number & 1 else b"%d" % (base + number) + bytes(size)
            records.append(NewRecord(self.now_ms, key, value))
            self.truth.entries[base + number] = Record(key, value, transaction)
        data = build_batch(
            records,
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=self.sequences[producer] if producer >= 0 else -1,
            is_transactional=transaction is not None,
            base_offset=base,
        )
        append_as_follower(self.log, memoryview(bytearray(data)), leader_epoch=0, now_ms=self.now_ms)
        self.sequences[producer] += len(records)
        self.log.advance_high_watermark(self.log.log_end_offset)

    @rule(seed=st.integers(0, 10**6), count=st.integers(3, 12))
    def work(self, seed: int, count: int) -> None:
        """Some batches of all kinds, and a new segment."""
        random = Random(seed)
        for _ in range(count):
            if self.open and random.random() < 0.25:
                self._end(random.choice(sorted(self.open)), commit=random.random() < 0.6)
                continue
            keys = [random.choice(KEYS) for _ in range(random.choice((1, 2, 4)))]
            producer = random.choice((-1, -1, 0, *TRANSACTIONAL))
            self._append(producer, keys, random.choice((0, 20, 150)), random.randrange(16), random.choice(CODECS))
        for producer in sorted(self.open):
            if random.random() < 0.7:
                self._end(producer, commit=random.random() < 0.6)
        self.roll_and_flush()

    def _transaction_of(self, producer: int) -> int:
        if producer not in self.open:
            self.open[producer] = self.truth.begin_transaction(producer)
        return self.open[producer]

    @precondition(lambda self: self.open)
    @rule(data=st.data(), commit=st.booleans())
    def end_transaction(self, data: st.DataObject, commit: bool) -> None:
        self._end(data.draw(st.sampled_from(sorted(self.open))), commit=commit)

    def _end(self, producer: int, *, commit: bool) -> None:
        self.truth.entries[self.log.log_end_offset] = Marker(self.open.pop(producer), commit)
        append_end_marker(
            self.log,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=1,
            commit=commit,
            transaction_version=1,
            leader_epoch=0,
            now_ms=self.now_ms,
        )
        self.log.advance_high_watermark(self.log.log_end_offset)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        offset = self.truth.log_start + int(share * (self.log.high_watermark.offset - self.truth.log_start))
        self.unlinks += delete_records_before(self.log, offset)
        self.truth.log_start = self.log.log_start_offset

    # What the owner does.

    @rule()
    def roll_and_flush(self) -> None:
        self.log.roll(self.log.log_end_offset, self.now_ms)
        self.log.flush()

    @rule()
    def sync_for_the_cleaner(self) -> None:
        """As when a cleaner asks for the segments."""
        if request_sealed_sync(self.log, self.now_ms):
            self.log.flush(self.log.take_flush())

    @rule(number=st.integers(0, 2))
    def retain(self, number: int) -> None:
        """With the policy compact,delete."""
        bases = self.log.segments.base_offsets
        if number < len(bases) - 1:
            self.unlinks += delete_segments(self.log, bases[number], self.now_ms)
            self.truth.log_start = self.log.log_start_offset

    @precondition(lambda self: self.unlinks)
    @rule()
    def unlink(self) -> None:
        for effect in self.unlinks:
            remove_files(self.log, effect)
        self.unlinks.clear()

    @rule(elapsed_ms=st.sampled_from([1, 600, 5000]))
    def wait(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms

    # Compaction.

    @precondition(lambda self: self._bounds())
    @rule(data=st.data(), map_bytes=st.sampled_from([24 * 3, 1 << 20]), window=st.sampled_from([1, 700, 1 << 20]))
    def begin_pass(self, data: st.DataObject, map_bytes: int, window: int) -> None:
        """A pass that was under way is given up, as it is when the policy changes, or its cleaner dies."""
        end = data.draw(st.sampled_from(self._bounds()))
        log, store = self.log, self.store
        first_dirty = log.log_start_offset
        if log.log_start_offset <= log.cleaned_offset <= log.log_end_offset:
            first_dirty = log.cleaned_offset
        cleaning = CleaningPass(
            store.open,
            store,
            log.config,
            sources_of(log, end),
            LatestOfEachKey(most_bytes=map_bytes, load_factor=0.9, most_keys=1000, seed=7),
            first_dirty_offset=first_dirty,
            first_uncleanable_offset=end,
            aborted=aborted_in(store),
            last_records=last_records_of(log),
            now_ms=self.now_ms,
            window_bytes=window,
        )
        self.steps = self._pass(cleaning, {segment.base_offset: segment for segment in log.segments})

    @precondition(lambda self: self._bounds())
    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        self.begin_pass(data, 1 << 20, 700)
        self.tick(10_000)

    @precondition(lambda self: self._bounds())
    @rule(
        data=st.data(),
        change=st.integers(1, 40),
        loses_power=st.booleans(),
        seed=st.integers(0, 1000),
        forgets=st.booleans(),
    )
    def die_in_a_pass(self, data: st.DataObject, change: int, loses_power: bool, seed: int, forgets: bool) -> None:
        self.begin_pass(data, 1 << 20, 700)
        self.die_in_mid_pass(change, loses_power, seed, forgets)

    @rule(
        data=st.data(),
        producer=st.sampled_from(TRANSACTIONAL),
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4),
        commit=st.booleans(),
        seed=st.integers(0, 1000),
    )
    def lose_power_after_a_pass_over_what_has_just_ended(
        self, data: st.DataObject, producer: int, keys: list[bytes | None], commit: bool, seed: int
    ) -> None:
        """The marker is in the active segment, and its transaction in a sealed one."""
        self._append(-1, keys, 0, 0, Codec.NONE)
        self._append(producer, keys, 0, 0, Codec.NONE)
        self.roll_and_flush()
        self._end(producer, commit=commit)
        if self._bounds():
            self.compact(data)
        self.die(True, seed, True)

    @precondition(lambda self: self._bounds())
    @rule(data=st.data(), steps=st.integers(0, 6), share=st.floats(0.1, 1), with_policy=st.booleans())
    def remove_in_a_pass(self, data: st.DataObject, steps: int, share: float, with_policy: bool) -> None:
        """Some of its sources, or all."""
        self.begin_pass(data, 1 << 20, 700)
        self.tick(steps)
        if with_policy:
            self.retain(0)
        else:
            self.delete_records(share)
        self.tick(10_000)

    def _bounds(self) -> list[int]:
        """Where a pass may end."""
        end = self.stable_end(self.log)
        first = max(self.log.cleaned_offset, self.log.segments[0].base_offset)
        return [base for base in self.log.segments.base_offsets if first < base <= end]

    def _pass(self, cleaning: CleaningPass, segments: dict[int, Segment]) -> Generator[None, None, None]:
        for _ in cleaning.learn():
            yield
        for group in cleaning.groups():
            steps = cleaning.clean(group)
            while True:
                try:
                    next(steps)
                except StopIteration as finished:
                    files: CleanedFiles = finished.value
                    break
                yield
            for kind in files.kinds():
                self.store.open(file_name(files.base_offset, kind, CLEANED)).sync()
            yield
            sources = [segments[source.base_offset] for source in group]
            if not replacement.are_current(self.log, sources):
                return
            self.truth.cleaned_to = max(self.truth.cleaned_to, cleaning.end_offset)
            self.unlinks.append(replace_segments(self.log, sources, files))
            yield
        self.log.cleaned_offset = cleaning.end_offset

    @precondition(lambda self: self.steps is not None)
    @rule(count=st.sampled_from([1, 2, 5, 1000]))
    def tick(self, count: int) -> None:
        if self.steps is None:
            return
        try:
            for _ in range(count):
                next(self.steps)
        except (StopIteration, FileNotFoundError):
            # The second: its sources were removed.
            self.steps = None

    # How it ends.

    @rule()
    def restart(self) -> None:
        self.log.close()
        self._load(was_clean=True, cleaned_offset=self.log.cleaned_offset)

    @rule(loses_power=st.booleans(), seed=st.integers(0, 1000), forgets=st.booleans())
    def die(self, loses_power: bool, seed: int, forgets: bool) -> None:
        """With `forgets`, the checkpoint of what is clean is an old one."""
        if loses_power:
            self.store.lose_power(Random(seed))
        else:
            self.store.kill()
        self._load(was_clean=False, cleaned_offset=-1 if forgets else self.log.cleaned_offset)

    @precondition(lambda self: self.steps is not None)
    @rule(change=st.integers(1, 40), loses_power=st.booleans(), seed=st.integers(0, 1000), forgets=st.booleans())
    def die_in_mid_pass(self, change: int, loses_power: bool, seed: int, forgets: bool) -> None:
        self.store.crash_at = self.store.changes + change
        with suppress(Crashed):
            self.tick(1000)
        self.die(loses_power, seed, forgets)

    def _load(self, *, was_clean: bool, cleaned_offset: int) -> None:
        flushed = self.log.recovery_point
        self.log = load(
            self.store,
            config=SMALL,
            was_clean=was_clean,
            recovery_point=flushed,
            log_start_offset=self.truth.log_start,
            now_ms=self.now_ms,
        )
        assert self.log.log_end_offset >= flushed
        self.log.cleaned_offset = min(cleaned_offset, self.log.log_end_offset)
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.steps = None
        self.unlinks.clear()
        self.truth.forget_from(self.log.log_end_offset)
        self.open = self.truth.open_transactions()

    # What has to be so.

    @invariant()
    def the_log_holds_what_it_has_to(self) -> None:
        self.truth.check(self.log, self.store)

    @invariant()
    def offsets_are_found(self) -> None:
        check_indexes(self.store)
        for batch in batches_of(self.log, self.log.log_end_offset + 1):
            for offset in {max(batch.base_offset, self.truth.log_start), batch.last_offset}:
                if offset >= self.truth.log_start:
                    assert self.log.position_of(offset).offset <= offset
