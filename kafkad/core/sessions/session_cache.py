"""The fetch sessions of one network process: limits, eviction, and the errors for stale sessions.

Kafka's FetchManager and FetchSessionCache (KIP-227): a full cache evicts a session that was unused for `eviction_ms`,
or a smaller session that is older than that; otherwise the new session is rejected. Sessions of followers are
privileged: they evict those of consumers at once, and consumers never evict them while they are used. Sessions are
ordered by last use, so nothing scans all of them. The number of partitions in all sessions is limited too: any client
may send as many as a request can have, existing or not, and sessions outlive connections.

Evictable sessions are evicted in Kafka's order: consumers' sessions first, by size, by id. Their order is a heap with
lazy removal instead of Kafka's tree: an entry is valid only if it is the current rank of its session. Invalid entries
are removed when they are the majority, so that each change costs O(log n).
"""

import heapq
from collections.abc import Callable, Iterator

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.sessions.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, next_epoch

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


EVICTION_MS = 120_000
"""Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS: younger sessions are not evicted by larger ones."""


MAX_PARTITIONS = 300_000
"""Limit of partitions in all sessions of a broker: about 80 MB."""


class SessionCache:
    """At most `slots` sessions with `max_partitions` in total. `draw_id` returns random positive int32s."""

    def __init__(
        self,
        slots: int,
        draw_id: Callable[[], int],
        eviction_ms: int = EVICTION_MS,
        *,
        max_partitions: int = MAX_PARTITIONS,
    ) -> None:
        self._slots = slots
        self._max_partitions = max_partitions
        self._sizes: dict[int, int] = {}
        """The number of partitions of each session at its last use."""
        self._partitions = 0
        self._draw_id = draw_id
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, FetchSession] = {}
        """By id, least recently used first."""
        self._evictable_by_all = EvictableSessions()
        self._evictable_by_followers = EvictableSessions()
        self._evicted: list[FetchSession] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def begin_full(self, session_id: int) -> FetchSession | None:
        """Close and return the session of a full request, if any."""
        return self._remove(session_id) if session_id != NO_SESSION else None

    def open(self, session: FetchSession, epoch: int, now_ms: int) -> bool:
        """Create a session for the partitions of a full request, unless it requests none or the cache is full."""
        if epoch == FINAL_EPOCH or not 0 < len(session.partitions) <= self._max_partitions:
            return False
        while not self._has_space(session):
            if not self._evict(session, now_ms):
                return False
        session_id = self._draw_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._draw_id()
        session.session_id = session_id
        session.epoch = next_epoch(INITIAL_EPOCH)
        session.created_ms = now_ms
        self._touch(session, now_ms)
        return True

    def resume(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> FetchSession:
        """The session that an incremental request continues; call `updated` when the request is applied to it.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return session

    def updated(self, session: FetchSession, now_ms: int) -> None:
        """An incremental request was applied. A session without partitions is closed, as in Apache Kafka.

        So is a session that exceeds the limit of partitions: its client then sends a full request. A follower's session
        evicts others first.
        """
        grown = len(session.partitions) - self._sizes[session.session_id]
        has_space = grown <= 0 or self._partitions + grown <= self._max_partitions
        if session.partitions and (has_space or (session.is_privileged and self._make_space(session, now_ms))):
            session.epoch = next_epoch(session.epoch)
            self._touch(session, now_ms)
        else:
            self._remove(session.session_id)

    def reply_session_id(self, session: FetchSession) -> int:
        """The session id of the response: 0 if the session was closed or evicted while its request waited."""
        is_current = self._sessions.get(session.session_id) is session
        return session.session_id if is_current else NO_SESSION

    def _make_space(self, grown: FetchSession, now_ms: int) -> bool:
        """Evict others for a session that has grown; after a failure it is removed from the cache."""
        self._remove(grown.session_id)
        while not self._has_space(grown):
            if not self._evict(grown, now_ms):
                return False
        return True

    def _has_space(self, session: FetchSession) -> bool:
        remaining = self._max_partitions - self._partitions
        return len(self._sessions) < self._slots and len(session.partitions) <= remaining

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        """Record a use of the session: it expires last, and may become evictable by larger sessions."""
        self._sessions.pop(session.session_id, None)
        self._sessions[session.session_id] = session
        self._partitions += len(session.partitions) - self._sizes.get(session.session_id, 0)
        self._sizes[session.session_id] = len(session.partitions)
        session.last_used_ms = now_ms
        is_old = now_ms - session.created_ms > self._eviction_ms
        if is_old:
            self._evictable_by_all.put(session)
        if is_old or not session.is_privileged:
            self._evictable_by_followers.put(session)

    def _evict(self, new_session: FetchSession, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            return self._evict_session(oldest.session_id)
        evictable = self._evictable_by_followers if new_session.is_privileged else self._evictable_by_all
        first = evictable.first()
        if first is None or rank_of(new_session) < first:
            return False
        return self._evict_session(first[2])

    def _evict_session(self, session_id: int) -> bool:
        session = self._remove(session_id)
        assert session is not None, "only sessions of the cache are evicted"
        self._evicted.append(session)
        return True

    def _remove(self, session_id: int) -> FetchSession | None:
        self._evictable_by_all.remove(session_id)
        self._evictable_by_followers.remove(session_id)
        self._partitions -= self._sizes.pop(session_id, 0)
        return self._sessions.pop(session_id, None)

    def take_evicted(self) -> list[FetchSession]:
        """The sessions evicted since the last call, so that the caller stops watching their partitions."""
        evicted, self._evicted = self._evicted, []
        return evicted
