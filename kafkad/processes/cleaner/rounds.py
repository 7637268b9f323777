"""One round over all logs: each worker gets one request for a chunk of logs at a time, the next after its response.

The requests of an early check are queued behind the pending ones.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.processes.runtime.peers import Sender
from kafkad.wire.processes.descriptors import SegmentsRequest, pack_control

CHUNK = 200
"""Partitions in one request: a worker describes them in a few milliseconds."""


class Rounds:
    """The pending requests; the `part_id` identifies late responses of an earlier round."""

    def __init__(self, peers: Sender) -> None:
        self._peers = peers
        self._last_id = 0
        self._waiting: dict[int, deque[SegmentsRequest]] = {}
        self._pending: dict[int, int] = {}

    @property
    def is_over(self) -> bool:
        return not self._pending

    def begin(self, by_worker: Mapping[int, Sequence[tuple[int, int]]]) -> None:
        """`by_worker`: (slot, short_id) by worker. The rest of the previous round is dropped."""
        self._waiting.clear()
        self._pending.clear()
        self.add(by_worker)

    def add(self, by_worker: Mapping[int, Sequence[tuple[int, int]]]) -> None:
        """Queue more requests, as for `begin`."""
        for worker, partitions in by_worker.items():
            chunks = self._waiting.setdefault(worker, deque())
            for at in range(0, len(partitions), CHUNK):
                self._last_id += 1
                chunks.append(SegmentsRequest(self._last_id, list(partitions[at : at + CHUNK])))
            if worker not in self._pending:
                self._request_next(worker)

    def described(self, worker: int, part_id: int) -> bool:
        """The worker has described a chunk. False if the response is late."""
        if self._pending.get(worker) != part_id:
            return False
        self._request_next(worker)
        return True

    def worker_ended(self, worker: int) -> None:
        """The worker is lost: its partitions are checked in the next round."""
        self._waiting.pop(worker, None)
        self._pending.pop(worker, None)

    def _request_next(self, worker: int) -> None:
        self._pending.pop(worker, None)
        chunks = self._waiting.get(worker)
        if not chunks:
            return
        request = chunks.popleft()
        if self._peers.send(ProcessKey("worker", worker), pack_control(request)):
            self._pending[worker] = request.part_id
        else:
            self.worker_ended(worker)
