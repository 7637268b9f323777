"""Compacts one log at a time, the most urgent first.

A pass runs in steps of about ten milliseconds, so that the process handles messages in between. A failure affects only
its own partition: it is logged once, and the compaction is retried after increasing pauses, or when the topic's
configuration changes.
"""

import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from importlib import import_module
from typing import TYPE_CHECKING
from uuid import UUID

from kafkad.adapters.operating_system.clocks import monotonic_ms, wall_clock_ms
from kafkad.adapters.operating_system.helper_threads import HelperThreads
from kafkad.adapters.operating_system.process_limits import keep_freed_memory, release_free_memory
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.config import BrokerConfig
from kafkad.core.cleaning.uncleanable import PassAbandoned, UncleanableLog
from kafkad.core.metrics.catalogue import (
    MAX_BUFFER_UTILIZATION,
    MAX_CLEAN_TIME,
    READ_TO_RECOPY_BYTES,
    RECOPIED_BYTES,
)
from kafkad.core.metrics.counting import Block
from kafkad.core.ports import StorageFailed
from kafkad.processes.cleaner.early_checks import EarlyChecks
from kafkad.processes.cleaner.log_states import LogKey, LogStates
from kafkad.processes.cleaner.planning import PlannedRewrite
from kafkad.processes.cleaner.time_limit import CallTooLong
from kafkad.processes.cleaner.unfinished_work import UnfinishedWork, Work
from kafkad.processes.runtime.peers import Sender
from kafkad.wire.processes.cleaning_messages import (
    NO_GRANT,
    CleaningEnded,
    CleaningGranted,
    CleaningRequest,
    CompactionFigures,
    CompactionRow,
    Swapped,
)
from kafkad.wire.processes.descriptors import pack_control

if TYPE_CHECKING:
    from kafkad.core.cleaning.cleaning_pass import PassFigures
    from kafkad.processes.cleaner.rewriting import Progress, Steps, Swap

log = logging.getLogger(__name__)

_UNTHROTTLED = 1e15
_SMALLEST_WINDOW = 65_536
_NOT_COMPACTED = "cannot compact %s, retrying in %d s or when its configuration changes: %s"
_WITHOUT_KEY = "compaction removed %d records without a key from %s"


class _Pass:
    """The log that is compacted now."""

    __slots__ = ("awaited", "begun_ms", "granted", "planned", "steps", "swap")

    def __init__(self, planned: PlannedRewrite) -> None:
        self.planned = planned
        self.granted: CleaningGranted | None = None
        self.steps: Steps | None = None
        self.awaited: Future[None] | Future[bool] | None = None
        """The sync, or the owner's swap, that the next step waits for."""
        self.swap: Swap | None = None
        """The swap that is requested from the owner."""
        self.begun_ms = monotonic_ms()

    @property
    def number(self) -> int:
        return NO_GRANT if self.granted is None else self.granted.grant

    @property
    def owner(self) -> ProcessKey:
        return ProcessKey("worker", self.planned.partition.owner)

    @property
    def name(self) -> str:
        return f"{self.planned.topic.name}-{self.planned.partition.index}"


class Compactor:
    """`cleaners` processes share the configured memory and rate.

    `doorbell` becomes readable when a sync or swap has ended.
    """

    def __init__(
        self,
        config: BrokerConfig,
        cleaners: int,
        peers: Sender,
        block: Block,
        unfinished: UnfinishedWork,
        early_checks: EarlyChecks,
    ) -> None:
        self.config = config
        self._cleaners = cleaners
        self._peers = peers
        self._block = block
        self._unfinished = unfinished
        self._planned: dict[int, PlannedRewrite] = {}
        self.states = LogStates(block, early_checks)
        self._pass: _Pass | None = None
        self._stepped_ms = 0
        self._unpaid_bytes = 0
        """The bytes that the last step has read and written."""
        self._threads = HelperThreads(1, "sync")
        self.has_finished = False
        """Whether a log was compacted since the last check: another one may be due at once."""
        self.doorbell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def plan(self, planned: PlannedRewrite) -> None:
        """A policy requires the compaction of this log."""
        if not self.states.is_quarantined(_key(planned), monotonic_ms()):
            self._planned[planned.slot] = planned

    def topics_changed(self, is_selected: Callable[[UUID], bool]) -> None:
        """Their configuration has changed: policies decide again, and failures are retried at once."""
        self.states.release(is_selected)
        self._planned = {slot: row for slot, row in self._planned.items() if not is_selected(row.topic.id)}

    def worker_ended(self, worker: int) -> None:
        """The requests to the worker and its grants are lost."""
        self._planned = {slot: row for slot, row in self._planned.items() if row.partition.owner != worker}
        if self._pass is not None and self._pass.planned.partition.owner == worker:
            self._close()

    def rows(self, failed_policies: Mapping[tuple[UUID, int], str]) -> list[CompactionRow]:
        """The state of each log."""
        compacting = None if self._pass is None else _key(self._pass.planned)
        planned = {_key(row) for row in self._planned.values()}
        return list(self.states.rows(compacting, planned, failed_policies, monotonic_ms(), wall_clock_ms()))

    @property
    def is_idle(self) -> bool:
        return self._pass is None and not self._planned

    @property
    def next_step_ms(self) -> int | None:
        """When the next step is due; None while there is none."""
        if self._pass is None:
            return 0 if self._planned else None
        return None if self._pass.steps is None or self._pass.awaited is not None else self._paid_ms

    @property
    def _paid_ms(self) -> int:
        """When the rate allows the next step; a changed rate applies at once."""
        rate = self.config.log_cleaner.log_cleaner_io_max_bytes_per_second / self._cleaners
        return self._stepped_ms + (int(1000 * self._unpaid_bytes / rate) if 0 < rate < _UNTHROTTLED else 0)

    def tick(self, now_ms: int) -> None:
        """Perform one step, or begin with the next log."""
        current = self._pass
        if current is None:
            self._begin()
        elif current.steps is not None and current.awaited is None and now_ms >= self._paid_ms:
            self._resume(current.steps)

    def rung(self, _events: int) -> None:
        os.eventfd_read(self.doorbell)
        current = self._pass
        if current is None or current.steps is None or current.awaited is None or not current.awaited.done():
            return
        self._resume(current.steps)

    def close(self) -> None:
        """The process stops: remove incomplete segments."""
        self._close()
        self._threads.close()

    def handle(self, worker: ProcessKey, message: CleaningGranted | Swapped) -> None:
        current = self._pass
        if current is None or current.owner != worker or current.planned.slot != message.slot:
            return
        match message:
            case CleaningGranted() if current.granted is None:
                if message.grant == NO_GRANT:
                    self._pass = None
                    return
                current.granted = message
                current.steps = self._steps(current, message)
            case Swapped() if current.steps is not None and message.grant == current.number:
                swap, current.swap = current.swap, None
                assert swap is not None, "the owner responds to a swap request"
                swap.done.set_result(message.done)

    def _begin(self) -> None:
        if not self._planned:
            return
        planned = max(self._planned.values(), key=lambda row: row.effect.urgency)
        del self._planned[planned.slot]
        self._pass = _Pass(planned)
        offsets = planned.effect.first_dirty_offset, planned.effect.first_uncleanable_offset
        request = CleaningRequest(planned.slot, planned.short_id, planned.policy, *offsets)
        if not self._peers.send(self._pass.owner, pack_control(request)):
            self._pass = None

    def _steps(self, current: _Pass, granted: CleaningGranted) -> "Steps":
        # numpy's own threads would only wait for each other.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # The module takes 15 MB, which an idle cleaner saves.
        rewriting = import_module("kafkad.processes.cleaner.rewriting")
        keep_freed_memory()
        config = self.config
        settings = config.log_cleaner
        limits = rewriting.PassLimits(
            map_bytes=settings.log_cleaner_dedupe_buffer_size // self._cleaners,
            load_factor=settings.log_cleaner_io_buffer_load_factor,
            # Kafka has a buffer to read and one to write.
            window_bytes=max(2 * settings.log_cleaner_io_buffer_size // self._cleaners, _SMALLEST_WINDOW),
        )
        directory = f"{config.log_dirs.log_dirs[current.planned.partition.log_dir]}/{current.name}"
        steps: Steps = rewriting.rewrite_steps(
            current.planned, granted, directory, limits, self._threads, wall_clock_ms()
        )
        return steps

    def _resume(self, steps: "Steps") -> None:
        current = self._pass
        assert current is not None
        current.awaited = None
        self._unfinished.begin(current.planned.slot, Work.COMPACTING)
        try:
            progress = next(steps)
        except StopIteration as finished:
            self._unfinished.end(current.planned.slot, Work.COMPACTING)
            self._finished(current, *finished.value)
        except PassAbandoned as reason:
            self._abandon(current)
            log.debug("aborted the compaction of %s: %s", current.name, reason)
        except CallTooLong as overrun:
            cause = f"policy {current.planned.policy!r}: {overrun}"
            log.error(_NOT_COMPACTED, current.name, self._failed(current, cause), cause)
        except (StorageFailed, UncleanableLog) as error:
            log.error(_NOT_COMPACTED, current.name, self._failed(current, str(error)), error)
        except Exception as failure:
            # A plugin's filter may raise anything.
            cause = f"policy {current.planned.policy!r} failed: {failure!r}"
            log.error(_NOT_COMPACTED, current.name, self._failed(current, cause), cause, exc_info=True)
        else:
            self._wait_for(current, progress)
        finally:
            self._unfinished.pause()

    def _wait_for(self, current: _Pass, progress: "Progress") -> None:
        match progress:
            case int():
                self._stepped_ms, self._unpaid_bytes = monotonic_ms(), progress
            case Future():
                current.awaited = progress
                progress.add_done_callback(self._ring)
            case swap:
                current.swap = swap
                if not self._peers.send(current.owner, pack_control(swap.request)):
                    self._close()

    def _ring(self, _done: object) -> None:
        """Also called by a thread: wake the loop."""
        os.eventfd_write(self.doorbell, 1)

    def _finished(self, current: _Pass, cleaned_offset: int, figures: "PassFigures") -> None:
        self._pass = None
        self.has_finished = True
        self._end(current, cleaned_offset)
        seconds = (monotonic_ms() - current.begun_ms) / 1000
        self.states.compacted(
            _key(current.planned),
            CompactionFigures(
                ended_ms=wall_clock_ms(),
                seconds=seconds,
                cleaned_offset=cleaned_offset,
                records_read=figures.records_read,
                records_written=figures.records_written,
                bytes_read=figures.bytes_read,
                bytes_written=figures.bytes_written,
            ),
        )
        self._block[RECOPIED_BYTES] = figures.bytes_written
        self._block[READ_TO_RECOPY_BYTES] = figures.bytes_read
        # Rounded down, as in Apache Kafka.
        self._block[MAX_CLEAN_TIME] = int(seconds)
        self._block[MAX_BUFFER_UTILIZATION] = int(100 * figures.map_utilization)
        log.info(
            "%s was compacted up to offset %d (%s): kept %d of %d records and %d of %d bytes in %.1f s",
            current.name,
            cleaned_offset,
            current.planned.effect.reason,
            figures.records_written,
            figures.records_read,
            figures.bytes_written,
            figures.bytes_read,
            seconds,
        )
        if figures.dropped_without_key:
            log.warning(_WITHOUT_KEY, figures.dropped_without_key, current.name)

    def _failed(self, current: _Pass, reason: str) -> int:
        """Returns the seconds until the retry."""
        self._abandon(current)
        return self.states.failed(_key(current.planned), reason, monotonic_ms()) // 1000

    def _abandon(self, current: _Pass) -> None:
        self._pass = None
        self._end(current, NO_GRANT)

    def _end(self, current: _Pass, cleaned_offset: int) -> None:
        if current.granted is not None:
            message = CleaningEnded(current.planned.slot, current.granted.grant, cleaned_offset)
            self._peers.send(current.owner, pack_control(message))
            release_free_memory()

    def _close(self) -> None:
        """Abort the pass."""
        current, self._pass = self._pass, None
        if current is not None and current.steps is not None:
            current.steps.close()


def _key(planned: PlannedRewrite) -> LogKey:
    return LogKey(planned.topic.id, planned.partition.index, planned.partition.log_dir)
