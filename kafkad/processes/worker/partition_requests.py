"""Handles requests to the owner of partitions: manifests, producers, segments, DeleteRecords, cleanup, markers."""

import logging
from collections.abc import Generator, Iterator

from kafkad.adapters.operating_system.clocks import wall_clock_ms
from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.cleanup import SegmentSummary
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.effects import UnlinkFiles
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.producers.entry import ProducerEntry
from kafkad.core.log.segments.gaps import find_gaps
from kafkad.core.log.segments.layout import LOG, file_name
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
from kafkad.core.waiting.delayed_partitions import DeletionProgress
from kafkad.processes.runtime.peers import Sender
from kafkad.processes.runtime.turns import Turns
from kafkad.processes.worker.coordinators.transactions.marker_writer import TxnMarkerWriter
from kafkad.processes.worker.delete_records import PendingDeleteRecords
from kafkad.processes.worker.disks.index_repairs import IndexRepairs
from kafkad.processes.worker.outbox import FAILURES, Outbox, log_no_space
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.slots import Slots
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
    "%s: %s ends before offset %d, and the next segment begins at %d: the offsets in between are missing, and readers "
    "skip them; the file was cut, unless the topic was compacted before"
)

MOST_DESCRIBED_BYTES = 16 << 20
"""Beyond this size of producers the other partitions of a DescribeProducers get INVALID_REQUEST."""


class PartitionRequests:
    """One request after the other; each is small, or the sender has split it."""

    def __init__(
        self,
        partitions: dict[int, OwnedPartition],
        *,
        now_ms: int,
        block: CounterBlock,
        sender: Sender,
        outbox: Outbox,
        slots: Slots,
        marker_writer: TxnMarkerWriter,
        deletions: DeletionProgress,
    ) -> None:
        self._partitions = partitions
        self._sender = sender
        self._outbox = outbox
        self._slots = slots
        self._marker_writer = marker_writer
        self._turns = Turns()
        self._index_repairs = IndexRepairs(outbox)
        self._removing_below_start: set[OwnedPartition] = set()
        """Partitions whose segments below the log start offset are being removed in steps."""
        self.pending_deletes = PendingDeleteRecords(
            now_ms=now_ms, block=block, progress=deletions, delete=self._delete, sender=sender
        )

    def handle(self, peer: ProcessKey, message: ControlMessage) -> None:
        response: ControlMessage
        match message:
            case ManifestRequest():
                owned = self._owned(message.slot, message.short_id)
                if owned is not None and message.wrong_index >= 0 and owned.generation == message.generation:
                    self._turns.add(SEGMENTS_PER_STEP, self._manifest_after_repair(peer, owned, message))
                    return
                if owned is not None and (owned.is_recovering or owned.is_swapping):
                    owned.waiting_requests.append((peer, message))
                    return
                response = self._manifest(message)
            case DeleteRecordsRequest():
                self.pending_deletes.start(peer, message)
                return
            case ProducersRequest():
                # In steps: a partition may have hundreds of thousands of producers.
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
                raise AssertionError(f"{type(message).__name__} is not for a worker")
        self._sender.send(peer, pack_control(response))

    @property
    def is_busy(self) -> bool:
        return bool(self._turns)

    def tick(self) -> None:
        """Continue requests that are handled in steps."""
        if self._turns:
            self._turns.work()

    def respond_to_waiting(self, owned: OwnedPartition) -> None:
        """The log is loaded, offline or deleted: handle the manifest requests that wait for it."""
        waiting, owned.waiting_requests = owned.waiting_requests, []
        for peer, message in waiting:
            self._sender.send(peer, pack_control(self._manifest(message)))

    def _owned(self, slot: int, short_id: int) -> OwnedPartition | None:
        owned = self._partitions.get(slot)
        return owned if owned is not None and owned.short_id == short_id else None

    def _manifest(self, message: ManifestRequest) -> Manifest:
        owned = self._owned(message.slot, message.short_id)
        if owned is not None and message.files_missing:
            self._check_files(owned)
        if owned is not None:
            # The slot may be a pass behind the log; the manifest must not be ahead of the slot.
            self._slots.publish(owned)
        if owned is None or owned.log is None:
            return Manifest(message.slot, message.short_id, False, 0, [], [])
        manifest = owned.log.manifest()
        generation = owned.generation_base + manifest.generation
        bases, epochs = list(manifest.segment_bases), list(manifest.epochs)
        return Manifest(message.slot, message.short_id, True, generation, bases, epochs, manifest.rewrites)

    def _check_files(self, owned: OwnedPartition) -> None:
        """A reader reports missing files: take the partition offline if files are missing."""
        if owned.log is None:
            return
        try:
            _check_files(owned.log)
        except FAILURES as error:
            self._outbox.failed(owned, error)

    def _manifest_after_repair(
        self, peer: ProcessKey, owned: OwnedPartition, message: ManifestRequest
    ) -> Iterator[None]:
        """A reader has found a corrupt index: its manifest waits for the repair."""
        incarnation = self.pending_deletes.incarnation_of(peer)
        yield from self._index_repairs.repair(owned, message.wrong_index)
        if incarnation == self.pending_deletes.incarnation_of(peer):
            self.handle(peer, ManifestRequest(message.slot, message.short_id))

    def _delete(self, slot: int, short_id: int, offset: int) -> tuple[ErrorCode, int]:
        """Delete records of this replica. Returns an error, and the offset at which every replica's log must start."""
        owned = self._owned(slot, short_id)
        if owned is None or owned.log is None or not owned.leads:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        partition_log = owned.log
        up_to = partition_log.high_watermark.offset if offset == HIGH_WATERMARK else offset
        try:
            removed = delete_records_before(partition_log, up_to)
        except KafkaError as rejection:
            return rejection.code, -1
        except NoSpaceLeft as no_space:
            log_no_space(owned, "DeleteRecords failed, no record was deleted", no_space)
            return ErrorCode.KAFKA_STORAGE_ERROR, -1
        except FAILURES as failure:
            self._outbox.failed(owned, failure)
            return ErrorCode.KAFKA_STORAGE_ERROR, -1
        self._log_start_moved(owned, removed)
        return ErrorCode.NONE, up_to

    def _log_start_moved(self, owned: OwnedPartition, removed: list[UnlinkFiles]) -> None:
        """Publish the new log start first, then remove the files."""
        self._slots.publish(owned)
        self._outbox.touched(owned)
        for effect in removed:
            self._outbox.remove_later(owned, effect)
        if removed:
            self.remove_below_start(owned)

    def remove_below_start(self, owned: OwnedPartition) -> None:
        """Remove the remaining segments below the log start offset: very many, or left by an earlier incarnation."""
        if owned.log is not None and has_expired_segments(owned.log) and owned not in self._removing_below_start:
            self._removing_below_start.add(owned)
            self._turns.add(SEGMENTS_PER_STEP, self._removal_steps(owned, owned.log))

    def _removal_steps(self, owned: OwnedPartition, partition_log: PartitionLog) -> Iterator[None]:
        """Some segments in each step."""
        try:
            while owned.log is partition_log and owned.is_online and has_expired_segments(partition_log):
                yield
                if owned.log is partition_log and owned.is_online:
                    self._log_start_moved(owned, remove_expired_segments(partition_log))
        except NoSpaceLeft as no_space:
            log_no_space(owned, "cannot remove segments below the log start offset yet", no_space)
        except FAILURES as failure:
            self._outbox.failed(owned, failure)
        finally:
            self._removing_below_start.discard(owned)

    def _write_markers(self, peer: ProcessKey, message: WriteTxnMarkersOrder) -> None:
        """WriteTxnMarkers: one response for all markers, after the last is written."""
        incarnation = self.pending_deletes.incarnation_of(peer)
        results: dict[int, list[int]] = {}

        def written(order: TxnMarkerWritten) -> None:
            results[order.marker_id] = order.results
            if len(results) == len(message.markers) and incarnation == self.pending_deletes.incarnation_of(peer):
                rows = [results[number] for number in range(len(results))]
                self._sender.send(peer, pack_control(TxnMarkersWritten(message.part_id, rows)))

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
            self._marker_writer.write(order, written)

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
            self._sender.send(peer, pack_control(Producers(message.part_id, results)))

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
        """In steps: each segment of a newly loaded log must be opened."""
        incarnation = self.pending_deletes.incarnation_of(peer)
        described = []
        for partition in message.partitions:
            described.append((yield from self._segments(*partition)))
        if incarnation == self.pending_deletes.incarnation_of(peer):
            self._sender.send(peer, pack_control(SegmentsDescribed(message.part_id, described)))

    def _segments(self, slot: int, short_id: int) -> Generator[None, None, SegmentsOf]:
        owned = self._owned(slot, short_id)
        nothing = SegmentsOf(slot, 0, 0, 0, 0, NOT_CLEANED, [])
        if owned is None or owned.log is None or not owned.is_online:
            return nothing
        partition_log = owned.log
        # Read before the segments: no decision may concern later batches.
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
            self._outbox.failed(owned, error)
            return nothing
        if request_sealed_sync(partition_log, wall_clock_ms()):
            self._outbox.touched(owned)
        if any(segment.wrong_index for segment in partition_log.segments):
            self._turns.add(SEGMENTS_PER_STEP, self._index_repairs.repair_log(owned, partition_log))
        return SegmentsOf(slot, start, high_watermark, end, cleanable_end, cleaned_offset, rows)

    def _clean_up(self, order: CleanupOrdered) -> None:
        """Perform a policy's order, checked against the present log."""
        owned = self._owned(order.slot, order.short_id)
        if owned is None or owned.log is None or not owned.is_online:
            return
        try:
            self._perform(owned, owned.log, order)
        except NoSpaceLeft as no_space:
            # Cleaning frees space, so a full disk must not take the partition offline here.
            log_no_space(owned, "cleanup postponed to the next round", no_space)
        except FAILURES as failure:
            self._outbox.failed(owned, failure)

    def _perform(self, owned: OwnedPartition, partition_log: PartitionLog, order: CleanupOrdered) -> None:
        before = partition_log.log_start_offset
        if order.roll:
            partition_log.roll(partition_log.log_end_offset, wall_clock_ms())
        # Batches appended since the plan are kept, even if their segment was to be removed.
        decided = min(partition_log.high_watermark.offset, order.log_end_offset)
        up_to = min(order.delete_up_to, last_segment_below(partition_log, decided))
        removed = delete_segments(partition_log, up_to, wall_clock_ms()) if up_to >= 0 else []
        self._log_start_moved(owned, removed)
        start = partition_log.log_start_offset
        if start != before:
            log.info("%s: log start offset increased from %d to %d: %s", owned.name, before, start, order.reason)


def _check_files(partition_log: PartitionLog) -> None:
    """Raises FileNotFoundError if log files of segments are not in the partition's directory."""
    present = partition_log.store.sizes()
    names = [file_name(base, LOG) for base in partition_log.segments.base_offsets]
    missing = [name for name in names if name not in present]
    if missing:
        raise FileNotFoundError(f"there is no {', '.join(missing)}")


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
