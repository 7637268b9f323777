"""Transfers segments to receivers before they are deleted: opened here, received in a thread, deleted by their owner.

Each segment is received at least once: the order to delete it is sent when its receiver has returned. If the receiver
raises, or this process dies, the next round plans the same segment again.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import pairwise
from typing import BinaryIO
from uuid import UUID

from kafkad.adapters.operating_system.helper_threads import HelperThreads
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.cleanup import SealedSegment, SegmentSummary
from kafkad.core.log.segments.layout import LOG, file_name
from kafkad.processes.cleaner.planning import PlannedTransfer, SlotReader
from kafkad.processes.runtime.peers import Sender
from kafkad.wire.processes.descriptors import CleanupOrdered, pack_control, short_topic_id

log = logging.getLogger(__name__)

THREADS = 4
"""The maximum number of concurrent receivers."""


class _Task:
    """The segments of one partition to transfer, each with the offset after its last."""

    def __init__(self, plan: PlannedTransfer) -> None:
        self.plan = plan
        self.segments = deque(
            (segment, following.base_offset)
            for segment, following in pairwise(plan.log.segments)
            if segment.base_offset <= plan.effect.up_to_base_offset and following.base_offset <= plan.log.high_watermark
        )
        self.name = f"{plan.topic.name}-{plan.partition.index}"

    @property
    def key(self) -> tuple[UUID, int]:
        return self.plan.topic.id, self.plan.partition.index


class SegmentTransfers:
    """At most one segment of each partition at a time. `doorbell` becomes readable when a receiver has returned."""

    def __init__(
        self,
        log_dirs: Sequence[str],
        table: SlotReader,
        peers: Sender,
    ) -> None:
        self._log_dirs = log_dirs
        self._table = table
        self._peers = peers
        self._threads = HelperThreads(THREADS, "transfer")
        self.doorbell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._running: dict[int, tuple[_Task, Future[None]]] = {}
        """By slot."""
        self._failing: dict[tuple[UUID, int], int] = {}
        """The base offset of the failing segment, by topic id and partition."""

    def begin(self, plan: PlannedTransfer) -> None:
        """Ignored while segments of the partition are being transferred."""
        if plan.slot not in self._running:
            self._next(_Task(plan))

    def _next(self, task: _Task) -> None:
        plan = task.plan
        self._running.pop(plan.slot, None)
        if not task.segments:
            return
        segment, next_offset = task.segments[0]
        file = self._open(plan, segment)
        if file is None:
            return
        sealed = SealedSegment(
            topic=plan.topic.name,
            topic_id=plan.topic.id,
            partition=plan.partition.index,
            first_offset=segment.base_offset,
            next_offset=next_offset,
            size_bytes=segment.size_bytes,
            file=file,
        )
        future = self._threads.submit(_transfer, plan.effect.receiver, sealed)
        self._running[plan.slot] = task, future
        future.add_done_callback(self._ring)

    def _open(self, plan: PlannedTransfer, segment: SegmentSummary) -> BinaryIO | None:
        """None if the segment was removed or changed: the next round plans again."""
        directory = f"{self._log_dirs[plan.partition.log_dir]}/{plan.topic.name}-{plan.partition.index}"
        try:
            path = f"{directory}/{file_name(segment.base_offset, LOG)}"
            file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC), "rb")
        except OSError:
            return None
        # Checked after opening: a topic that was recreated meanwhile has other files of the same names.
        is_ours = self._table.read(plan.slot).topic_id == plan.topic.id.bytes
        if not is_ours or os.fstat(file.fileno()).st_size != segment.size_bytes:
            file.close()
            return None
        return file

    def _ring(self, _done: object) -> None:
        """Called by a thread: wake the loop."""
        os.eventfd_write(self.doorbell, 1)

    def rung(self, _events: int) -> None:
        os.eventfd_read(self.doorbell)
        for task, future in [row for row in self._running.values() if row[1].done()]:
            error = future.exception()
            if error is None:
                self._transferred(task)
                self._next(task)
            else:
                del self._running[task.plan.slot]
                self._failed(task, error)

    def _transferred(self, task: _Task) -> None:
        segment, next_offset = task.segments.popleft()
        plan = task.plan
        if segment.base_offset >= self._failing.get(task.key, segment.base_offset + 1):
            del self._failing[task.key]
            log.info("%s: transferring segments works again", task.name)
        order = CleanupOrdered(
            plan.slot,
            short_topic_id(plan.topic.id.bytes),
            False,
            segment.base_offset,
            next_offset,
            plan.effect.reason,
        )
        self._peers.send(ProcessKey("worker", plan.partition.owner), pack_control(order))

    def _failed(self, task: _Task, error: BaseException) -> None:
        """Log it once, until a transfer succeeds."""
        if task.key not in self._failing:
            self._failing[task.key] = task.segments[0][0].base_offset
            log.error(
                "%s: cannot transfer the segment at offset %d, it is kept and retried in each round",
                task.name,
                task.segments[0][0].base_offset,
                exc_info=error,
            )

    def close(self) -> None:
        """Wait for running receivers, until the supervisor kills this process."""
        self._threads.close(cancel=True)
        os.close(self.doorbell)


def _transfer(receiver: Callable[[SealedSegment], None], sealed: SealedSegment) -> None:
    """Called by a thread."""
    with sealed.file:
        receiver(sealed)
