"""A log that producers of every kind write to, and what compaction makes of it."""

from random import Random

from kafkad.core.cleaning.batch_retention import LastRecord
from kafkad.core.cleaning.cleaning_pass import CleaningPass
from kafkad.core.cleaning.record_filter import LatestOfEachKey
from kafkad.core.cleaning.sources import SourceSegment
from kafkad.core.log.coordinated import append_end_marker
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.batch import Codec
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.layout import CLEANED, LOG, TXN_INDEX, file_name
from kafkad.core.log.segments.transaction_index import AbortedTransaction, unpack_entries
from kafkad.core.log.settings import LogConfig
from tests.core.cleaning.naive import Batch, read_batches
from tests.core.log.batches import NOW, load
from tests.core.log.fake_store import FakeStore

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=3000,
    index_interval_bytes=300,
    segment_index_bytes=4096,
    delete_retention_ms=1000,
)
KEYS = [f"key-{number}".encode() for number in range(6)]


class Writer:
    """Writes what clients may write; transactions are of producers 1 to 3, and 0 is idempotent."""

    def __init__(self, seed: int, config: LogConfig = CONFIG) -> None:
        self.random = Random(seed)
        self.store = FakeStore()
        self.log = load(self.store, config=config)
        self.sequences = dict.fromkeys(range(4), 0)
        self.open: set[int] = set()

    def write(self, steps: int) -> None:
        for _ in range(steps):
            choice = self.random.random()
            if choice < 0.5:
                self.append(-1)
            elif choice < 0.65:
                self.append(0)
            elif choice < 0.85 or not self.open:
                self.append(self.random.randrange(1, 4))
            else:
                self.end(self.random.choice(sorted(self.open)))
        for producer in sorted(self.open):
            self.end(producer)
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.log.roll(self.log.log_end_offset, NOW)

    def append(self, producer: int) -> None:
        records = [self.record() for _ in range(self.random.choice((1, 1, 3, 8)))]
        is_transactional = producer > 0
        data = build_batch(
            records,
            codec=self.random.choice(list(Codec)),
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=self.sequences[producer] if producer >= 0 else -1,
            is_transactional=is_transactional,
            log_append_time=NOW + 7 if self.random.random() < 0.1 else None,
            base_offset=self.log.log_end_offset,
        )
        append_as_follower(self.log, memoryview(bytearray(data)), leader_epoch=0, now_ms=NOW)
        if producer >= 0:
            self.sequences[producer] += len(records)
        if is_transactional:
            self.open.add(producer)

    def record(self) -> NewRecord:
        value = None if self.random.random() < 0.2 else self.random.randbytes(self.random.choice((0, 9, 120)))
        key = None if self.random.random() < 0.05 else self.random.choice(KEYS)
        headers = [("h", b"v")] if self.random.random() < 0.2 else []
        return NewRecord(NOW + self.random.randrange(-500, 500), key, value, headers)

    def end(self, producer: int) -> None:
        append_end_marker(
            self.log,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=1,
            commit=self.random.random() < 0.5,
            transaction_version=1,
            leader_epoch=0,
            now_ms=NOW,
        )
        self.open.discard(producer)


def compacted(*batches: list[NewRecord], codec: Codec = Codec.NONE) -> Writer:
    writer = Writer(0)
    for records in batches:
        data = build_batch(records, base_offset=writer.log.log_end_offset, codec=codec)
        append_as_follower(writer.log, memoryview(bytearray(data)), leader_epoch=0, now_ms=NOW)
    writer.write(0)
    return writer


def sources_of(log: PartitionLog, end: int) -> list[SourceSegment]:
    return [
        SourceSegment(
            base_offset=segment.base_offset,
            size=segment.size,
            index_bytes=segment.index_bytes[0],
            time_index_bytes=segment.index_bytes[1],
        )
        for segment in log.segments
        if segment.base_offset < end
    ]


def aborted_in(store: FakeStore) -> list[AbortedTransaction]:
    names = sorted(name for name in store.files if name.endswith(TXN_INDEX))
    return [entry for name in names for entry in unpack_entries(store.read(name))]


def last_records_of(log: PartitionLog) -> dict[int, LastRecord]:
    return {
        entry.producer_id: LastRecord(entry.last_offset if entry.batches else None, entry.producer_epoch)
        for entry in log.producers.active()
    }


def begin_pass(
    log: PartitionLog,
    store: FakeStore,
    *,
    first_dirty: int,
    now_ms: int,
    map_bytes: int = 1 << 20,
    window: int = 700,
    load_factor: float = 0.9,
) -> tuple[CleaningPass, LatestOfEachKey]:
    end = log.segments.active.base_offset
    latest = LatestOfEachKey(most_bytes=map_bytes, load_factor=load_factor, most_keys=end - first_dirty, seed=7)
    cleaning = CleaningPass(
        store.open,
        store,
        log.config,
        sources_of(log, end),
        latest,
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=end,
        aborted=aborted_in(store),
        last_records=last_records_of(log),
        now_ms=now_ms,
        window_bytes=window,
    )
    return cleaning, latest


def run_pass(cleaning: CleaningPass) -> list[CleanedFiles]:
    for _ in cleaning.learn():
        continue
    written = []
    for group in cleaning.groups():
        steps = cleaning.clean(group)
        while True:
            try:
                next(steps)
            except StopIteration as finished:
                written.append(finished.value)
                break
    return written


def batches_of(log: PartitionLog, end: int) -> list[Batch]:
    """What the segments below `end` hold."""
    files = [file_name(segment.base_offset, LOG) for segment in log.segments if segment.base_offset < end]
    store = log.store
    return [batch for name in files for batch in read_batches(store.read(name))]


def cleaned_batches(store: FakeStore, written: list[CleanedFiles]) -> list[Batch]:
    names = [file_name(files.base_offset, LOG, CLEANED) for files in written]
    return [batch for name in names for batch in read_batches(store.read(name))]
