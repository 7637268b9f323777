"""Which session would be pushed out first? Those that may be, in Kafka's order: by size, then by id.

A heap with lazy removal in place of Kafka's tree: an entry counts as long as it is the one that is remembered for
its session. Entries that no longer count are swept out when they are the larger part, so that each change costs
O(log n).
"""

import heapq

from kafkad.core.sessions.fetch_session import FetchSession

Rank = tuple[int, int]
"""(partitions, session id)."""
_SPARE = 64


def rank_of(session: FetchSession) -> Rank:
    return len(session.partitions), session.session_id


class EvictableSessions:
    """The sessions that a newcomer may push out."""

    def __init__(self) -> None:
        self._ranks: dict[int, Rank] = {}
        self._heap: list[Rank] = []

    def put(self, session: FetchSession) -> None:
        """It may be pushed out, or has another size now."""
        rank = rank_of(session)
        if self._ranks.get(session.session_id) == rank:
            return
        self._ranks[session.session_id] = rank
        heapq.heappush(self._heap, rank)
        if len(self._heap) > 2 * len(self._ranks) + _SPARE:
            self._heap = sorted(self._ranks.values())

    def remove(self, session_id: int) -> None:
        self._ranks.pop(session_id, None)

    def first(self) -> Rank | None:
        """The one that goes first; None when none may be pushed out."""
        heap = self._heap
        while heap and self._ranks.get(heap[0][1]) != heap[0]:
            heapq.heappop(heap)
        return heap[0] if heap else None
