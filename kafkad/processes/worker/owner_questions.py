"""Answers questions to the owner of partitions: about files, producers and segments, to delete records, to clean up."""

import logging
from collections.abc import Callable, Generator, Iterator

from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.cleanup import SegmentSummary
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.producers.entry import ProducerEntry
from kafkad.core.log.segments.gaps import find_gaps
from kafkad.core.log.segments.removal import (
    SEGMENTS_PER_STEP,
    cleanable_end_of,
    delete_records_before,
    delete_segments,
    has_expired_segments,
    last_segment_below,
    remove_expired_segments,
    request_sealed_sync,
    segment_summaries,
)
from kafkad.core.ports import NoSpaceLeft
from kafkad.core.types import NOT_CLEANED
from kafkad.core.waiting.delayed_delete_records import DeletionProgress
from kafkad.processes.runtime.turns import Turns
from kafkad.processes.worker.coordinators.transactions.marker_channel import WriteTxnMarker
from kafkad.processes.worker.delete_records import PendingDeleteRecords
from kafkad.processes.worker.disks.index_repairs import IndexRepairs
from kafkad.processes.worker.failed_partitions import FAILURES, FailedPartitions, log_no_space
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.messages.describe_producers import ProducerRow, pack_producers
from kafkad.wire.processes.coordinator_messages import TxnMarkerRequest, TxnMarkerWritten
from kafkad.wire.processes.descriptors import (
    CleanupOrdered,
    ControlMessage,
    DeleteRecordsRequest,
    Manifest,
    ManifestRequest,
    Producers,
    ProducersRequest,
    SegmentRow,
    SegmentsDescribed,
    SegmentsOf,
    SegmentsRequest,
    TxnMarkersWritten,
    WriteTxnMarkersOrder,
    pack_control,
)
from kafkad.wire.steps import STEP

log = logging.getLogger(__name__)

HIGH_WATERMARK = -1
"""The offset in DeleteRecords that means the high watermark."""

_GAP = (
    "%s: %s ends before offset %d, and the next segment begins at %d: the records between are not in the log, and "
    "readers skip them; the file was cut, unless the topic was compacted once"
)

MOST_DESCRIBED_BYTES = 16 << 20
"""After so many bytes of producers the other partitions of a DescribeProducers are refused."""


class Questions:
    """Answers one message after the other; each is small, or the sender has split it."""

    def __init__(
        self,
        partitions: dict[int, OwnedPartition],
        *,
        now_ms: int,
        block: CounterBlock,
        send: Callable[[ProcessKey, bytes], None],
        touched: Callable[[OwnedPartition], None],
        publish: Callable[[OwnedPartition], None],
        remove_later: Callable[[OwnedPartition, UnlinkFiles], None],
        failed_partitions: FailedPartitions,
        write_markers: WriteTxnMarker,
        deletions: DeletionProgress,
    ) -> None:
        self._partitions = partitions
        self._send = send
        self._touched = touched
        self._publish = publish
        self._remove_later = remove_later
        self._failed_partitions = failed_partitions
        self._write = write_markers
        self._turns = Turns()
        self._index_repairs = IndexRepairs(touched, failed_partitions)
        self._shortening: set[OwnedPartition] = set()
        """Partitions whose segments are being removed step by step."""
        self.pending_deletes = PendingDeleteRecords(
            now_ms=now_ms, block=block, progress=deletions, delete=self._delete, send=send
        )

    def answer(self, peer: ProcessKey, message: ControlMessage) -> None:
        answer: ControlMessage
        match message:
            case ManifestRequest():
                owned = self._owned(message.slot, message.short_id)
                if owned is not None and message.wrong_index >= 0 and owned.generation == message.generation:
                    self._turns.add(SEGMENTS_PER_STEP, self._manifest_when_right(peer, owned, message))
                    return
                if owned is not None and (owned.is_recovering or owned.is_swapping):
                    owned.waiting_questions.append((peer, message))
                    return
                answer = self._manifest(message)
            case DeleteRecordsRequest():
                self.pending_deletes.start(peer, message)
                return
            case ProducersRequest():
                # In steps: a partition may have hundreds of thousands of them.
                self._turns.add(len(message.partitions), self._describe_producers(peer, message))
                return
            case SegmentsRequest():
                self._turns.add(len(message.partitions), self._describe_segments(peer, message))
                return
            case CleanupOrdered():
                self._clean_up(message)
                return
            case WriteTxnMarkersOrder():
                self._write_markers(peer, message)
                return
            case _:
                raise AssertionError(f"nobody sends {type(message).__name__} to a worker")
        self._send(peer, pack_control(answer))

    @property
    def is_busy(self) -> bool:
        return bool(self._turns)

    def tick(self) -> None:
        """In each pass: go on with answers that are made in steps."""
        if self._turns:
            self._turns.work()

    def respond_to_waiting(self, owned: OwnedPartition) -> None:
        """The log is loaded, given up or deleted: answer the questions that waited for it."""
        waiting, owned.waiting_questions = owned.waiting_questions, []
        for peer, message in waiting:
            self._send(peer, pack_control(self._manifest(message)))

    def _owned(self, slot: int, short_id: int) -> OwnedPartition | None:
        owned = self._partitions.get(slot)
        return owned if owned is not None and owned.short_id == short_id else None

    def _manifest(self, message: ManifestRequest) -> Manifest:
        owned = self._owned(message.slot, message.short_id)
        if owned is not None and message.files_missing:
            self._failed_partitions.look(owned)
        if owned is None or owned.log is None:
            return Manifest(message.slot, message.short_id, False, 0, [], [])
        # The slot may be a pass behind the log; the answer must not be ahead of it.
        self._publish(owned)
        manifest = owned.log.manifest()
        generation = owned.generation_base + manifest.generation
        bases, epochs = list(manifest.segment_bases), list(manifest.epochs)
        return Manifest(message.slot, message.short_id, True, generation, bases, epochs, manifest.rewrites)

    def _manifest_when_right(self, peer: ProcessKey, owned: OwnedPartition, message: ManifestRequest) -> Iterator[None]:
        """A reader has found an index wrong: it waits until that was looked at."""
        incarnation = self.pending_deletes.incarnation_of(peer)
        yield from self._index_repairs.steps(owned, message.wrong_index)
        if incarnation == self.pending_deletes.incarnation_of(peer):
            self.answer(peer, ManifestRequest(message.slot, message.short_id))

    def _delete(self, slot: int, short_id: int, offset: int) -> tuple[ErrorCode, int]:
        """Delete here; returns the offset at which the log must start on every replica."""
        owned = self._owned(slot, short_id)
        if owned is None or owned.log is None or not owned.leads:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        partition_log = owned.log
        up_to = partition_log.high_watermark.offset if offset == HIGH_WATERMARK else offset
        try:
            removed = delete_records_before(partition_log, up_to)
        except KafkaError as refusal:
            return refusal.code, -1
        except NoSpaceLeft as no_space:
            log_no_space(owned, "DeleteRecords has failed, no record was deleted", no_space)
            return ErrorCode.KAFKA_STORAGE_ERROR, -1
        except FAILURES as failure:
            self._failed_partitions.failed(owned, failure)
            return ErrorCode.KAFKA_STORAGE_ERROR, -1
        self._moved(owned, removed)
        return ErrorCode.NONE, up_to

    def _moved(self, owned: OwnedPartition, removed: list[UnlinkFiles]) -> None:
        """Publish the new log start first, then remove the files."""
        self._publish(owned)
        self._touched(owned)
        for effect in removed:
            self._remove_later(owned, effect)
        if removed:
            self.shorten(owned)

    def shorten(self, owned: OwnedPartition) -> None:
        """Remove the segments below the log start that are still there: very many, or left by an earlier process."""
        if owned.log is not None and has_expired_segments(owned.log) and owned not in self._shortening:
            self._shortening.add(owned)
            self._turns.add(SEGMENTS_PER_STEP, self._remove_passed(owned, owned.log))

    def _remove_passed(self, owned: OwnedPartition, partition_log: PartitionLog) -> Iterator[None]:
        """Some of them in a step; other requests are served in between."""
        try:
            while owned.log is partition_log and owned.is_online and has_expired_segments(partition_log):
                yield
                if owned.log is partition_log and owned.is_online:
                    self._moved(owned, remove_expired_segments(partition_log))
        except NoSpaceLeft as no_space:
            log_no_space(owned, "segments below the log start offset can't be removed yet", no_space)
        except FAILURES as failure:
            self._failed_partitions.failed(owned, failure)
        finally:
            self._shortening.discard(owned)

    def _write_markers(self, peer: ProcessKey, message: WriteTxnMarkersOrder) -> None:
        """WriteTxnMarkers: several markers are answered together, after the last is written."""
        incarnation = self.pending_deletes.incarnation_of(peer)
        results: dict[int, list[int]] = {}

        def written(order: TxnMarkerWritten) -> None:
            results[order.marker_id] = order.results
            if len(results) == len(message.markers) and incarnation == self.pending_deletes.incarnation_of(peer):
                rows = [results[number] for number in range(len(results))]
                self._send(peer, pack_control(TxnMarkersWritten(message.part_id, rows)))

        for number, row in enumerate(message.markers):
            order = TxnMarkerRequest(
                number,
                row.producer_id,
                row.producer_epoch,
                row.coordinator_epoch,
                row.is_commit,
                row.transaction_version,
                row.partitions,
            )
            self._write(order, written)

    def _describe_producers(self, peer: ProcessKey, message: ProducersRequest) -> Iterator[None]:
        incarnation = self.pending_deletes.incarnation_of(peer)
        results: list[tuple[int, int, bytes]] = []
        size = 0
        for partition in message.partitions:
            if size >= MOST_DESCRIBED_BYTES:
                results.append((ErrorCode.INVALID_REQUEST, 0, b""))
                continue
            results.append((yield from self._producers(*partition)))
            size += len(results[-1][2])
            yield
        if incarnation == self.pending_deletes.incarnation_of(peer):
            self._send(peer, pack_control(Producers(message.part_id, results)))

    def _producers(self, slot: int, short_id: int) -> Generator[None, None, tuple[int, int, bytes]]:
        owned = self._owned(slot, short_id)
        if owned is None or owned.log is None or not owned.is_online:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, b""
        entries = list(owned.log.producers.active())
        packed = []
        for first in range(0, len(entries), STEP):
            packed.append(pack_producers(_producer_row(entry) for entry in entries[first : first + STEP]))
            yield
        return ErrorCode.NONE, len(entries), b"".join(packed)

    def _describe_segments(self, peer: ProcessKey, message: SegmentsRequest) -> Iterator[None]:
        """In steps: each segment of a log that was just loaded must be opened."""
        incarnation = self.pending_deletes.incarnation_of(peer)
        described = []
        for partition in message.partitions:
            described.append((yield from self._segments(*partition)))
        if incarnation == self.pending_deletes.incarnation_of(peer):
            self._send(peer, pack_control(SegmentsDescribed(message.part_id, described)))

    def _segments(self, slot: int, short_id: int) -> Generator[None, None, SegmentsOf]:
        owned = self._owned(slot, short_id)
        nothing = SegmentsOf(slot, 0, 0, 0, 0, NOT_CLEANED, [])
        if owned is None or owned.log is None or not owned.is_online:
            return nothing
        partition_log = owned.log
        # Read before the segments, so that no decision is made about later batches.
        start = partition_log.log_start_offset
        high_watermark, end = partition_log.high_watermark.offset, partition_log.log_end_offset
        cleanable_end, cleaned_offset = cleanable_end_of(partition_log), partition_log.cleaned_offset
        rows: list[SegmentRow] = []
        try:
            for row in segment_summaries(partition_log):
                rows.append(_segment_row(row))
                if len(rows) % SEGMENTS_PER_STEP == 0:
                    yield
                    if owned.log is not partition_log or not owned.is_online:
                        return nothing
            for number, gap in enumerate(find_gaps(partition_log), 1):
                if gap is not None:
                    log.warning(_GAP, owned.name, *gap)
                if number % SEGMENTS_PER_STEP == 0:
                    yield
                    if owned.log is not partition_log or not owned.is_online:
                        return nothing
        except FAILURES as error:
            self._failed_partitions.failed(owned, error)
            return nothing
        if request_sealed_sync(partition_log, wall_clock_ms()):
            self._touched(owned)
        if any(segment.wrong_index for segment in partition_log.segments):
            self._turns.add(SEGMENTS_PER_STEP, self._index_repairs.of_log(owned, partition_log))
        return SegmentsOf(slot, start, high_watermark, end, cleanable_end, cleaned_offset, rows)

    def _clean_up(self, order: CleanupOrdered) -> None:
        """Perform a policy's plan, after checking it against the present log."""
        owned = self._owned(order.slot, order.short_id)
        if owned is None or owned.log is None or not owned.is_online:
            return
        try:
            self._carry_out(owned, owned.log, order)
        except NoSpaceLeft as no_space:
            # Cleaning makes room, so a full disk must not take the partition offline here. The next round tries again.
            log_no_space(owned, "its cleanup is put off until the next round", no_space)
        except FAILURES as failure:
            self._failed_partitions.failed(owned, failure)

    def _carry_out(self, owned: OwnedPartition, partition_log: PartitionLog, order: CleanupOrdered) -> None:
        before = partition_log.log_start_offset
        if order.roll:
            partition_log.roll(partition_log.log_end_offset, wall_clock_ms())
        # Batches appended since the plan stay, even if their segment was to be removed.
        decided = min(partition_log.high_watermark.offset, order.log_end_offset)
        up_to = min(order.delete_up_to, last_segment_below(partition_log, decided))
        removed = delete_segments(partition_log, up_to, wall_clock_ms()) if up_to >= 0 else []
        self._moved(owned, removed)
        start = partition_log.log_start_offset
        if start != before:
            log.info("%s: the log starts at %d now, not at %d: %s", owned.name, start, before, order.reason)


def _segment_row(row: SegmentSummary) -> SegmentRow:
    return SegmentRow(
        row.base_offset,
        row.size_bytes,
        row.largest_timestamp_ms,
        row.last_modified_ms,
        row.is_active,
        row.first_timestamp_ms,
    )


def _producer_row(entry: ProducerEntry) -> ProducerRow:
    return ProducerRow(
        entry.producer_id,
        entry.producer_epoch,
        entry.last_sequence,
        entry.last_timestamp,
        entry.coordinator_epoch,
        -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
    )
