"""Compaction in the owner of the logs: grants passes to cleaners, and swaps in the cleaned segments.

A cleaner only reads sealed segments and writes files of its own. A grant ends with its log, its cleaner, or a change of
its segments; the next swap request of the cleaner is then rejected. A swap begins on disk; then a new generation is
published, and manifest requests wait until every reader has seen it; then the files are renamed. Threads sync the
directory after each step, while clients are served.
"""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import NamedTuple

from kafkad.adapters.shared_memory.process_registry import GRACE_CHECK_MS, GraceMark, ProcessKey, ProcessRegistry
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.producers.entry import ProducerEntry
from kafkad.core.log.segments.cleaned_files import CleanedFiles
from kafkad.core.log.segments.removal import cleanable_end_of
from kafkad.core.log.segments.replacement import (
    abort_swap,
    are_current,
    begin_swap,
    finish_swap,
    remove_older_cleaned,
)
from kafkad.core.log.segments.segment import Segment
from kafkad.core.ports import NoSpaceLeft
from kafkad.processes.runtime.peers import Sender
from kafkad.processes.runtime.turns import Turns
from kafkad.processes.worker.outbox import FAILURES, Failure, Outbox
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.slots import Slots
from kafkad.processes.worker.upkeep import Upkeep
from kafkad.wire.processes.cleaning_messages import (
    NO_GRANT,
    CleaningEnded,
    CleaningGranted,
    CleaningRequest,
    SourceRow,
    Swapped,
    SwapRequest,
    pack_last_records,
)
from kafkad.wire.processes.descriptors import (
    ControlMessage,
    pack_control,
)
from kafkad.wire.steps import STEP

log = logging.getLogger(__name__)


class _Grant(NamedTuple):
    number: int
    cleaner: ProcessKey
    owned: OwnedPartition
    log: PartitionLog
    truncations: int
    policy: str
    segments: dict[int, Segment]
    is_ended: bool = False
    """Its cleaner was notified, and may still be writing."""


class _Swap(NamedTuple):
    grant: _Grant
    sources: list[Segment]
    cleaned: CleanedFiles


_Step = Callable[[_Swap], None]


class Cleanings:
    """The passes over this worker's logs."""

    def __init__(
        self,
        partitions: dict[int, OwnedPartition],
        registry: ProcessRegistry,
        *,
        sender: Sender,
        outbox: Outbox,
        slots: Slots,
        upkeep: Upkeep,
    ) -> None:
        self._partitions = partitions
        self._registry = registry
        self._sender = sender
        self._outbox = outbox
        self._slots = slots
        self._upkeep = upkeep
        self._grants: dict[int, _Grant] = {}
        self._last_number = 0
        self._swaps: dict[int, _Swap] = {}
        """Running swaps by slot."""
        self._waiting: list[tuple[_Swap, tuple[GraceMark, ...]]] = []
        """Swaps that wait for readers."""
        self._due_ms = 0
        self._turns = Turns()

    def handle(self, cleaner: ProcessKey, message: ControlMessage) -> None:
        match message:
            case CleaningRequest():
                self._grant(cleaner, message)
            case SwapRequest():
                self._begin_swap(cleaner, message)
            case CleaningEnded():
                self._end(message)
            case _:
                raise AssertionError(f"{type(message).__name__} is not about a cleaning")

    def cleaner_lost(self, cleaner: ProcessKey) -> None:
        """Its files are removed by the next pass, or before the next swap."""
        self._grants = {slot: grant for slot, grant in self._grants.items() if grant.cleaner != cleaner}

    @property
    def is_busy(self) -> bool:
        return bool(self._turns)

    @property
    def next_deadline_ms(self) -> int | None:
        return self._due_ms if self._waiting else None

    # Granting.

    def _grant(self, cleaner: ProcessKey, message: CleaningRequest) -> None:
        owned = self._partitions.get(message.slot)
        existing = self._grants.get(message.slot)
        if existing is not None and existing.cleaner == cleaner and not _is_valid(existing):
            # Only the cleaner of the old grant may replace it: another cleaner may still be writing the same files.
            del self._grants[message.slot]
            existing = None
        if owned is None or owned.short_id != message.short_id or not owned.is_online or existing:
            self._reject(cleaner, message.slot)
            return
        if message.slot in self._swaps or owned.is_moving:
            # As in Apache Kafka: copied segments must not change. A swap of an earlier pass ends first.
            self._reject(cleaner, message.slot)
            return
        partition_log = owned.log
        end = message.first_uncleanable_offset
        if (
            partition_log is None
            or message.policy not in partition_log.config.cleanup_policy
            or end > cleanable_end_of(partition_log)
            # Planned before the end of the last pass: all would be written once more.
            or message.first_dirty_offset < end <= _first_dirty(partition_log)
        ):
            self._reject(cleaner, message.slot)
            return
        segments = {each.base_offset: each for each in partition_log.segments if each.base_offset < end}
        if end not in partition_log.segments.base_offsets or not segments:
            self._reject(cleaner, message.slot)
            return
        self._last_number += 1
        truncations = partition_log.truncations
        grant = _Grant(self._last_number, cleaner, owned, partition_log, truncations, message.policy, segments)
        self._grants[message.slot] = grant
        self._turns.add(len(partition_log.producers), self._send_grant(grant))

    def _reject(self, cleaner: ProcessKey, slot: int) -> None:
        self._sender.send(cleaner, pack_control(CleaningGranted(slot, NO_GRANT, 0, [], [], b"")))

    def _send_grant(self, grant: _Grant) -> Iterator[None]:
        """In steps: a partition may have hundreds of thousands of producers."""
        entries = list(grant.log.producers.active())
        packed = []
        for first in range(0, len(entries), STEP):
            packed.append(pack_last_records(map(_last_record, entries[first : first + STEP])))
            yield
        sources = [SourceRow(each.base_offset, each.size, *each.index_bytes) for each in grant.segments.values()]
        later = [base for base in grant.log.segments.base_offsets if base not in grant.segments]
        message = CleaningGranted(
            grant.owned.slot, grant.number, _first_dirty(grant.log), sources, later, b"".join(packed)
        )
        self._sender.send(grant.cleaner, pack_control(message))

    # Swapping.

    def _begin_swap(self, cleaner: ProcessKey, message: SwapRequest) -> None:
        grant = self._grants.get(message.slot)
        if grant is None or grant.number != message.grant or not _is_valid(grant):
            self._sender.send(cleaner, pack_control(Swapped(message.slot, message.grant, False)))
            return
        sources = [grant.segments[base] for base in message.sources]
        cleaned = CleanedFiles(
            base_offset=message.sources[0],
            size=message.size,
            index_bytes=message.index_bytes,
            time_index_bytes=message.time_index_bytes,
            txn_index_bytes=message.txn_index_bytes,
            max_timestamp=message.max_timestamp,
            offset_of_max_timestamp=message.offset_of_max_timestamp,
            first_timestamp=message.first_timestamp,
        )
        swap = self._swaps[message.slot] = _Swap(grant, sources, cleaned)
        self._run_step(swap, self._clear)

    def _run_step(self, swap: _Swap, step: _Step) -> None:
        """Perform the next step of a swap, or abort it if its segments or its grant are outdated."""
        grant = swap.grant
        # A later pass has files of the same names.
        is_of_this_pass = self._grants.get(grant.owned.slot) is grant
        if not (is_of_this_pass and _is_valid(grant) and are_current(grant.log, swap.sources)):
            self._abort(swap)
            return
        try:
            step(swap)
        except NoSpaceLeft as no_space:
            log.error("%s is not compacted: %s", grant.owned.name, no_space)
            self._abort(swap)
        except FAILURES as failure:
            self._failed(swap, failure)

    def _run_when_synced(self, swap: _Swap, step: _Step) -> None:
        def swap_synced(outcome: Future[None]) -> None:
            def checked(swap: _Swap) -> None:
                outcome.result()
                step(swap)

            self._run_step(swap, checked)

        self._upkeep.sync_names(swap.grant.log.store, swap_synced)

    def _clear(self, swap: _Swap) -> None:
        if remove_older_cleaned(swap.grant.log, swap.cleaned):
            self._run_when_synced(swap, self._begin_on_disk)
        else:
            self._begin_on_disk(swap)

    def _begin_on_disk(self, swap: _Swap) -> None:
        begin_swap(swap.grant.log, swap.cleaned)
        self._run_when_synced(swap, self._publish_swap)

    def _publish_swap(self, swap: _Swap) -> None:
        owned = swap.grant.owned
        owned.is_swapping = True
        swap.grant.log.generation += 1
        self._slots.publish(owned)
        self._waiting.append((swap, self._registry.grace_marks()))
        self._due_ms = 0

    def tick(self, now_ms: int) -> None:
        """Send pending grants, and perform the swaps whose readers have seen the new generation."""
        if self._turns:
            self._turns.work()
        if not self._waiting or now_ms < self._due_ms:
            return
        self._due_ms = now_ms + GRACE_CHECK_MS
        waiting, self._waiting = self._waiting, []
        for swap, marks in waiting:
            if _is_valid(swap.grant) and not self._registry.has_grace_ended(marks):
                self._waiting.append((swap, marks))
            else:
                self._run_step(swap, self._rename)

    def _rename(self, swap: _Swap) -> None:
        owned, partition_log = swap.grant.owned, swap.grant.log
        removed = finish_swap(partition_log, swap.sources)
        self._slots.publish(owned)
        self._outbox.touched(owned)
        self._allow_readers(owned)

        def synced(outcome: Future[None]) -> None:
            failure = outcome.exception()
            if isinstance(failure, FAILURES):
                self._failed(swap, failure)
            elif failure is not None:
                raise failure
            else:
                self._outbox.remove_later(owned, removed)
                self._complete(swap, done=True)

        self._upkeep.sync_names(partition_log.store, synced)

    def _allow_readers(self, owned: OwnedPartition) -> None:
        owned.is_swapping = False
        self._outbox.readable(owned)

    def _abort(self, swap: _Swap) -> None:
        grant = swap.grant
        if grant.owned.log is grant.log:
            try:
                abort_swap(grant.log)
            except FAILURES as failure:
                self._failed(swap, failure)
                return
        self._complete(swap, done=False)

    def _failed(self, swap: _Swap, failure: Failure) -> None:
        """The next start completes the swap."""
        self._outbox.failed(swap.grant.owned, failure)
        self._complete(swap, done=False)

    def _complete(self, swap: _Swap, *, done: bool) -> None:
        grant = swap.grant
        del self._swaps[grant.owned.slot]
        if grant.owned.is_swapping:
            self._allow_readers(grant.owned)
        if not done and self._grants.get(grant.owned.slot) is grant:
            self._grants[grant.owned.slot] = grant._replace(is_ended=True)
        self._sender.send(grant.cleaner, pack_control(Swapped(grant.owned.slot, grant.number, done)))

    def _end(self, message: CleaningEnded) -> None:
        grant = self._grants.get(message.slot)
        if grant is None or grant.number != message.grant:
            return
        del self._grants[message.slot]
        if message.cleaned_offset != NO_GRANT and _is_valid(grant):
            grant.log.cleaned_offset = message.cleaned_offset
            self._outbox.touched(grant.owned)


def _is_valid(grant: _Grant) -> bool:
    """Whether the log is still the one of the grant, and its topic still has the policy."""
    if grant.is_ended:
        return False
    owned, partition_log = grant.owned, grant.log
    is_same = owned.log is partition_log and owned.is_online and partition_log.truncations == grant.truncations
    return is_same and not owned.is_moving and grant.policy in partition_log.config.cleanup_policy


def _first_dirty(partition_log: PartitionLog) -> int:
    """The end of the last pass if it is in the log; otherwise the whole log is dirty."""
    start, end = partition_log.log_start_offset, partition_log.log_end_offset
    return partition_log.cleaned_offset if start <= partition_log.cleaned_offset <= end else start


def _last_record(entry: ProducerEntry) -> tuple[int, int, int]:
    return entry.producer_id, entry.last_offset, entry.producer_epoch
