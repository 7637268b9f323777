"""Which session is evicted first? Evictable ones in Kafka's order: consumers' sessions first, by size, by id.

A heap with lazy removal instead of Kafka's tree: an entry is valid only if it is the current rank of its session.
Invalid entries are removed when they are the majority, so that each change costs O(log n).
"""

import heapq

from kafkad.core.sessions.fetch_session import FetchSession

Rank = tuple[bool, int, int]
"""(is a follower's, partitions, session id)."""
_MIN_HEAP = 64


def rank_of(session: FetchSession) -> Rank:
    return session.is_privileged, len(session.partitions), session.session_id


class EvictableSessions:
    """The sessions that a new session may evict."""

    def __init__(self) -> None:
        self._ranks: dict[int, Rank] = {}
        self._heap: list[Rank] = []

    def put(self, session: FetchSession) -> None:
        """Add a session, or update its size."""
        rank = rank_of(session)
        if self._ranks.get(session.session_id) == rank:
            return
        self._ranks[session.session_id] = rank
        heapq.heappush(self._heap, rank)
        if len(self._heap) > 2 * len(self._ranks) + _MIN_HEAP:
            self._heap = sorted(self._ranks.values())

    def remove(self, session_id: int) -> None:
        self._ranks.pop(session_id, None)

    def first(self) -> Rank | None:
        """The rank of the session to evict first; None if there is none."""
        heap = self._heap
        while heap and self._ranks.get(heap[0][2]) != heap[0]:
            heapq.heappop(heap)
        return heap[0] if heap else None
