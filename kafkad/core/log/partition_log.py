"""The log of one partition as its only writer uses it: append, roll, flush, watermarks.

All checks come before the first change: a rejected batch or a full disk leaves the log unchanged. Effects are work for
later: the owner syncs outside its loop, and unlinks files when no reader uses them. Removal and truncation are in
segments/removal.py, loading is in recovery/loading.py, appends of coordinators are in coordinated.py, appends of
followers in replicated.py.
"""

from collections import deque

from kafkad.core.log.append_info import AppendInfo
from kafkad.core.log.effects import FlushLog
from kafkad.core.log.epochs import LeaderEpochCache
from kafkad.core.log.pending_flush import PendingFlush
from kafkad.core.log.producers.entry import Duplicate
from kafkad.core.log.producers.producer_state import ACCEPT, EndMarker, ProducerStates
from kafkad.core.log.records.batch import CONTROL_FLAG, BatchHeader, assign_offsets
from kafkad.core.log.records.end_markers import read_end_marker
from kafkad.core.log.records.validation import validate_produce
from kafkad.core.log.recovery.state_files import write_aborted_counts, write_epochs, write_producers
from kafkad.core.log.segments.layout import LEADER_EPOCHS
from kafkad.core.log.segments.log_segments import Segments
from kafkad.core.log.segments.manifest import LogManifest
from kafkad.core.log.segments.segment import Segment
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import LogFile, NoSpaceLeft, SegmentStore
from kafkad.core.types import NO_TIMESTAMP, NOT_CLEANED, LogPosition

CACHED_POSITIONS = 32
"""Followers report offsets of the last few batches, so these positions stay in memory."""


class PartitionLog:
    """The log of one partition; mutable, with one owner."""

    __slots__ = (
        "_assigned_epoch",
        "_pending_flush",
        "_recent_positions",
        "_snapshot_offset",
        "_stable",
        "cleaned_offset",
        "config",
        "epochs",
        "generation",
        "held_back",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
        "rewrites",
        "segments",
        "store",
        "truncations",
    )

    def __init__(
        self,
        store: SegmentStore,
        config: LogConfig,
        segments: Segments,
        *,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        epochs: LeaderEpochCache,
        producers: ProducerStates,
        snapshot_offset: int,
        cleaned_offset: int = NOT_CLEANED,
    ) -> None:
        self.store = store
        self.config = config
        self.segments = segments
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.epochs = epochs
        self.producers = producers
        self.generation = 1
        self.truncations = 0
        self.rewrites = 0
        self.cleaned_offset = cleaned_offset
        self.high_watermark = LogPosition(log_start_offset, segments[0].base_offset, 0)
        self._assigned_epoch = epochs.latest_epoch
        self._snapshot_offset = snapshot_offset
        self._pending_flush = PendingFlush(store.open(LEADER_EPOCHS), segments.active.created_ms)
        self.held_back = self._pending_flush.held_back
        self._recent_positions: deque[LogPosition] = deque(maxlen=CACHED_POSITIONS)
        self._stable = LogPosition(-1, 0, 0)

    # Start, end and watermarks.

    @property
    def log_end(self) -> LogPosition:
        active = self.segments.active
        return LogPosition(self.log_end_offset, active.base_offset, active.size)

    @property
    def completed_end(self) -> int:
        """Appends are complete below this offset (`PendingFlush`). Records above it are neither acknowledged nor
        visible to consumers.
        """
        return self.held_back[0][0] if self.held_back else self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The limit of readers with read_committed: the high watermark, or the first offset of the oldest transaction
        that is open or whose marker is not replicated. If the beginning of that transaction was deleted, the log
        start offset.
        """
        unstable = self.producers.transactions.first_unstable
        if unstable is None or unstable >= self.high_watermark.offset:
            return self.high_watermark.offset
        return max(unstable, self.log_start_offset)

    @property
    def last_stable(self) -> LogPosition:
        """The position of the last stable offset; may read the index. Raises `StorageFailed`."""
        offset = self.last_stable_offset
        if offset == self.high_watermark.offset:
            return self.high_watermark
        if self._stable.offset != offset:
            self._stable = self.producers.transactions.position_of(offset) or self.position_of(offset)
        return self._stable

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def advance_high_watermark(self, offset: int) -> LogPosition:
        """Everything below `offset` is committed. Only truncation lowers it. Raises `StorageFailed`."""
        assert offset <= self.log_end_offset, f"high watermark {offset} is beyond the end {self.log_end_offset}"
        if offset > self.high_watermark.offset or self.high_watermark.segment_base != self.segments.active.base_offset:
            self.high_watermark = self.position_of(max(offset, self.high_watermark.offset))
        self.producers.transactions.replicated(self.high_watermark.offset)
        return self.high_watermark

    def position_of(self, offset: int) -> LogPosition:
        """The position of the batch with `offset`; reads the index if it is not cached. Raises `StorageFailed`."""
        if offset >= self.log_end_offset:
            return self.log_end
        for recent in reversed(self._recent_positions):
            if recent.offset == offset:
                return recent
        segment = self.segments.floor(offset) or self.segments[0]
        return LogPosition(offset, segment.base_offset, segment.position_of(offset))

    def manifest(self) -> LogManifest:
        """The state of this generation that readers need in addition to the slot."""
        return LogManifest(
            generation=self.generation,
            segment_bases=tuple(self.segments.base_offsets),
            epochs=tuple((entry.epoch, entry.start_offset) for entry in self.epochs.entries),
            rewrites=self.rewrites,
        )

    # Appending.

    def append_as_leader(
        self,
        records: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        produce_version: int,
        guard: int | None = None,
    ) -> AppendInfo:
        """Append one client's batch; `records` must be writable: its header is changed in place.

        `guard` is for `ProducerStates.check`. Raises `KafkaError` for a rejected batch, `NoSpaceLeft` and
        `StorageFailed` for the disk; nothing is appended then.
        """
        batch, header = validate_produce(records, self.config, now_ms, produce_version=produce_version)
        if header.producer_id >= 0 or header.is_transactional:
            result = self.producers.check(header, guard)
            if result is not ACCEPT:
                assert isinstance(result, Duplicate)
                return AppendInfo(result.base_offset, result.last_offset, result.timestamp, self.log_start_offset, True)
        return self.append_validated(batch, header, leader_epoch=leader_epoch, now_ms=now_ms)

    def append_validated(self, batch: memoryview, header: BatchHeader, *, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append a valid batch; its offset and leader epoch are written into it. Raises as above."""
        base_offset = self.log_end_offset
        assign_offsets(batch, 0, base_offset, leader_epoch)
        if leader_epoch != self._assigned_epoch:
            self.assign_epoch(leader_epoch, base_offset)
        self.write_batch(batch, header, base_offset, now_ms)
        log_append_time_ms = header.max_timestamp if header.is_log_append_time else NO_TIMESTAMP
        return AppendInfo(base_offset, self.log_end_offset - 1, log_append_time_ms, self.log_start_offset, False)

    def write_batch(
        self, batch: memoryview, header: BatchHeader, base_offset: int, now_ms: int, *, is_written: bool = False
    ) -> None:
        """Append one batch with offsets to the active segment, unless `is_written`; update the derived state."""
        last_offset, size = base_offset + header.last_offset_delta, len(batch)
        segment = self.segments.active
        if not segment.is_prepared:
            segment.prepare_append()
        if not is_written and segment.should_roll(
            self.config, size=size, max_timestamp=header.max_timestamp, last_offset=last_offset, now_ms=now_ms
        ):
            segment = self.roll(base_offset, now_ms)
        marker = None
        if header.attributes & CONTROL_FLAG:
            marker = _write_control(segment, self.producers, batch, header, base_offset)
        elif not is_written:
            segment.log.write_at((batch,), segment.size)
        position = LogPosition(base_offset, segment.base_offset, segment.size)
        self._recent_positions.append(position)
        segment.count_batch(last_offset, header.max_timestamp, size)
        self.log_end_offset = last_offset + 1
        if header.producer_id >= 0:
            if marker is not None:
                self.producers.record_end_marker(header, marker, base_offset, segment.base_offset)
            elif not header.attributes & CONTROL_FLAG:
                self.producers.record_append(header, base_offset, position)
        end, flush_messages = self.log_end_offset, self.config.flush_messages
        if end - self.recovery_point >= flush_messages:
            self._pending_flush.hold_back(base_offset, end, self.recovery_point, flush_messages, now_ms)

    def clear_positions(self) -> None:
        """Drop cached positions: files were truncated, or replaced by others of the same name."""
        self._recent_positions.clear()
        self._stable = LogPosition(-1, 0, 0)
        self.producers.transactions.clear_positions()

    def reset_after_truncation(self) -> None:
        """Drop cached positions and the snapshot offset, which may be beyond the new end of the log."""
        self.clear_positions()
        self.held_back.clear()
        self.cleaned_offset = min(self.cleaned_offset, self.log_end_offset)
        self._snapshot_offset = -1
        self._assigned_epoch = self.epochs.latest_epoch

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Record a leader epoch before its first batch: first in its file, then in memory."""
        if epoch == self._assigned_epoch:
            return
        epochs = LeaderEpochCache(self.epochs.entries)
        if epochs.assign(epoch, start_offset):
            file = write_epochs(self.store, epochs, is_first=self.epochs.latest_epoch is None)
            self._pending_flush.add_written(file)
            self.epochs = epochs
            self.generation += 1
        self._assigned_epoch = epoch

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Complete the active segment and start a new one at `base_offset`, or at the log end if that is larger."""
        active = self.segments.active
        base_offset = max(base_offset, self.log_end_offset)
        if active.size == 0 and active.base_offset == base_offset:
            return active
        active.complete()
        self._pending_flush.add_written(write_producers(self.store, self.producers, base_offset))
        self._snapshot_offset = base_offset
        self._pending_flush.add_written(write_aborted_counts(self.store, self.segments))
        segment = Segment.create(self.store, self.config, base_offset, now_ms=now_ms, roll_jitter=active.roll_jitter)
        self.segments.add(segment)
        self.generation += 1
        self.request_flush(now_ms, up_to=base_offset)
        return segment

    # Flushing.

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether `flush.ms` has passed and the log has unsynced records."""
        waited = now_ms - self._pending_flush.requested_ms
        return self.recovery_point < self.log_end_offset and waited >= self.config.flush_ms

    def request_flush(self, now_ms: int, up_to: int | None = None) -> None:
        """Request a sync of everything below `up_to` (default: the log end) and of derived files; see `take_flush`."""
        self._pending_flush.request(self.log_end_offset if up_to is None else up_to, now_ms)

    @property
    def is_flush_requested(self) -> bool:
        return self._pending_flush.is_requested

    def take_flush(self) -> FlushLog | None:
        """One sync for all requests so far; None if there are none. Raises `StorageFailed`, FileNotFoundError."""
        up_to = self._pending_flush.take(self.recovery_point)
        return None if up_to is None else self.flush_effect(min(up_to, self.log_end_offset))

    def flush_effect(self, up_to: int) -> FlushLog:
        """The files that must be synced before recovery may begin at `up_to`."""
        files: list[LogFile] = []
        for segment in self.segments.from_offset(self.recovery_point):
            if segment.base_offset < up_to:
                segment.flush_indexes()
                files.extend(segment.sync_files())
        written = tuple(self._pending_flush.take_written())
        lent = tuple(file.lend() for file in (*files, *written))
        return FlushLog(up_to=up_to, truncations=self.truncations, files=lent, finished=written, store=self.store)

    def flushed(self, effect: FlushLog) -> None:
        """The files of `effect` are on disk: recovery starts there."""
        effect.release()
        if effect.truncations != self.truncations:
            return
        self.recovery_point = max(self.recovery_point, effect.up_to)
        self._pending_flush.reached(self.recovery_point)
        self.producers.transactions.synced(self.recovery_point)

    def flush(self, effect: FlushLog | None = None) -> None:
        """Sync all, or the files of `effect`, in this thread (closing, tests); the loop uses `request_flush`."""
        effect = effect or self.flush_effect(self.log_end_offset)
        effect.perform()
        self.flushed(effect)

    def update_config(self, config: LogConfig) -> None:
        """Applies from the next append on; index sizes from the next segment on."""
        self.config = config

    def relocate_to(self, store: SegmentStore, *, synced_up_to: int, now_ms: int) -> None:
        """Continue in `store`, to which all files were copied byte for byte (`relocation`).

        Syncs of the old files are not syncs of the new ones.
        """
        for file in self._pending_flush.take_written():
            file.close()
        self.segments.move_to(store, self.config)
        self.store = store
        self.generation += 1
        self.truncations += 1
        self._snapshot_offset = -1
        self.recovery_point = min(max(self.recovery_point, synced_up_to), self.log_end_offset)
        if self.epochs.latest_epoch is not None:
            self._pending_flush.add_written(store.open(LEADER_EPOCHS))
        if self.held_back:
            self.request_flush(now_ms, self.held_back[-1][1])

    def close(self) -> None:
        """Stop cleanly: write and sync everything, close all files."""
        if effect := self.complete():
            self.flush(effect)
        self.abandon()

    def complete(self) -> FlushLog | None:
        """After the last append: write the indexes and a snapshot; return the sync that remains."""
        self._pending_flush.add_written(write_aborted_counts(self.store, self.segments))
        if self.recovery_point >= self.log_end_offset and self._snapshot_offset >= self.log_end_offset:
            return None
        self.segments.active.complete()
        self._pending_flush.add_written(write_producers(self.store, self.producers, self.log_end_offset))
        self._snapshot_offset = self.log_end_offset
        return self.flush_effect(self.log_end_offset)

    def abandon(self) -> None:
        """Close all files without writes: the directory failed, or the process exits."""
        for segment in self.segments:
            segment.close()
        for file in self._pending_flush.take_written():
            file.close()


def _write_control(
    segment: Segment, producers: ProducerStates, batch: memoryview, header: BatchHeader, base_offset: int
) -> EndMarker | None:
    """Write `batch` to the end of `segment`; return its transaction marker, for the producer state.

    The index gets the entry of an aborted transaction before the log gets the marker: a reader that sees the marker
    finds the entry. If the disk has no space for the marker, the entry is removed again (decision 010).
    """
    marker = read_end_marker(batch)
    aborted = None
    if marker is not None and header.producer_id >= 0:
        aborted = producers.aborted_by(header.producer_id, marker, base_offset)
    if aborted is None:
        segment.log.write_at((batch,), segment.size)
        return marker
    segment.aborted.append(aborted)
    try:
        segment.log.write_at((batch,), segment.size)
    except NoSpaceLeft:
        segment.aborted.remove_last()
        raise
    return marker
