"""The orders for the owners of the followed logs, and the arena extents that they retain.

Orders are sent at the end of the pass. A worker performs appends in order, so each result releases the worker's oldest
extent. A later result may overtake one that waits for a sync: the released extent then belongs to an earlier append,
which was performed as well.
"""

from collections import deque

from kafkad.adapters.shared_memory.arena import Arena
from kafkad.adapters.shared_memory.descriptor_ring import LARGEST_MESSAGE
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.replication.following.requests import FollowKind, FollowOrder
from kafkad.processes.runtime.peers import Peers
from kafkad.wire.processes.descriptors import frames_of
from kafkad.wire.processes.follow_descriptors import FOLLOW, pack_order

NO_EXTENT = -1
_FOLLOW = bytes((FOLLOW,))


class OwnerOrders:
    """The orders of one fetcher, for each of `workers` workers."""

    def __init__(self, arena: Arena, workers: int) -> None:
        self._arena = arena
        self._retained: list[deque[int]] = [deque() for _ in range(workers)]
        self._outgoing: list[list[bytes]] = [[] for _ in range(workers)]

    def add(self, worker: int, order: FollowOrder, extent: int = NO_EXTENT) -> None:
        """The records of an APPEND are in `extent`, which is retained until the worker has appended them."""
        if order.kind == FollowKind.APPEND:
            if extent != NO_EXTENT:
                self._arena.retain(extent)
            self._retained[worker].append(extent)
        self._outgoing[worker].append(pack_order(order))

    def appended(self, worker: int) -> None:
        """The worker has sent the result of an APPEND: release its oldest extent."""
        extent = self._retained[worker].popleft()
        if extent != NO_EXTENT:
            self._arena.release(extent)

    def worker_lost(self, worker: int) -> None:
        """The worker was reaped: it uses no memory any more."""
        self._outgoing[worker].clear()
        while self._retained[worker]:
            self.appended(worker)

    def send(self, peers: Peers) -> None:
        for worker, orders in enumerate(self._outgoing):
            for frame in frames_of(_FOLLOW, orders, LARGEST_MESSAGE) if orders else ():
                if not peers.send(ProcessKey("worker", worker), frame):
                    # The fetcher sends the orders again to the next incarnation.
                    self.worker_lost(worker)
                    break
            orders.clear()
