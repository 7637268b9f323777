"""One round over all logs: each worker gets one chunk of questions at a time, the next after its answer.

A look at some logs before the next round is due goes behind what is still to be asked.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.processes.runtime.peers import Sender
from kafkad.wire.processes.descriptors import SegmentsRequest, pack_control

CHUNK = 200
"""Partitions in one question: a worker describes them in a few milliseconds."""


class Rounds:
    """The questions still to send; `part_id`s tell answers of this round from late ones."""

    def __init__(self, peers: Sender) -> None:
        self._peers = peers
        self._last_id = 0
        self._waiting: dict[int, deque[SegmentsRequest]] = {}
        self._open: dict[int, int] = {}

    @property
    def is_over(self) -> bool:
        return not self._open

    def begin(self, wanted: Mapping[int, Sequence[tuple[int, int]]]) -> None:
        """`wanted`: (slot, short_id) by worker. The rest of the previous round is dropped."""
        self._waiting.clear()
        self._open.clear()
        self.add(wanted)

    def add(self, wanted: Mapping[int, Sequence[tuple[int, int]]]) -> None:
        """More questions, as `begin` has them, beside those that are still to be asked."""
        for worker, partitions in wanted.items():
            chunks = self._waiting.setdefault(worker, deque())
            for at in range(0, len(partitions), CHUNK):
                self._last_id += 1
                chunks.append(SegmentsRequest(self._last_id, list(partitions[at : at + CHUNK])))
            if worker not in self._open:
                self._ask_next(worker)

    def take(self, worker: int, part_id: int) -> bool:
        """The worker has described a chunk. False if that comes too late."""
        if self._open.get(worker) != part_id:
            return False
        self._ask_next(worker)
        return True

    def worker_ended(self, worker: int) -> None:
        """The worker is lost: its partitions are checked in the next round."""
        self._waiting.pop(worker, None)
        self._open.pop(worker, None)

    def _ask_next(self, worker: int) -> None:
        self._open.pop(worker, None)
        chunks = self._waiting.get(worker)
        if not chunks:
            return
        question = chunks.popleft()
        if self._peers.send(ProcessKey("worker", worker), pack_control(question)):
            self._open[worker] = question.part_id
        else:
            self.worker_ended(worker)
