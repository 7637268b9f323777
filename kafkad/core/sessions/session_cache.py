"""The fetch sessions of one network process: who gets one, who loses it, which error a stale one gets.

Kafka's FetchManager and FetchSessionCache (KIP-227): a full cache gives up a session that was unused for
`eviction_ms`, or one that is smaller than the newcomer and has had its time; else the newcomer gets none.
"""

from collections.abc import Callable, Iterator

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.sessions.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    next_epoch,
)

EVICTION_MS = 120_000
"""Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS: younger sessions are not pushed out by larger ones."""


class SessionCache:
    """At most `slots` sessions. `draw_id` gives random positive int32s."""

    def __init__(self, slots: int, draw_id: Callable[[], int], eviction_ms: int = EVICTION_MS) -> None:
        self._slots = slots
        self._draw_id = draw_id
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, FetchSession] = {}
        self._evicted: list[FetchSession] = []
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    @property
    def partitions(self) -> int:
        """Partitions in all sessions (Kafka's NumIncrementalFetchPartitionsCached)."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def begin_full(self, session_id: int) -> FetchSession | None:
        """A full request closes the session it names; the closed one is returned."""
        return self._sessions.pop(session_id, None) if session_id != NO_SESSION else None

    def open(self, session: FetchSession, epoch: int, now_ms: int) -> bool:
        """Give the partitions of a full request a session, unless it asked for none or there is no room."""
        if epoch == FINAL_EPOCH or not session.partitions:
            return False
        if len(self._sessions) >= self._slots and not self._evict(session, now_ms):
            return False
        session_id = self._draw_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._draw_id()
        session.session_id = session_id
        session.epoch = next_epoch(INITIAL_EPOCH)
        self._sessions[session_id] = session
        return True

    def resume(self, session_id: int, epoch: int, now_ms: int, *, uses_topic_ids: bool) -> FetchSession:
        """The session that an incremental request continues.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.last_used_ms = now_ms
        session.epoch = next_epoch(epoch)
        return session

    def close_if_empty(self, session: FetchSession) -> bool:
        """A session whose last partition was forgotten ends (Kafka removes it from the cache)."""
        if session.partitions or session.session_id == NO_SESSION:
            return False
        self._sessions.pop(session.session_id, None)
        return True

    def _evict(self, newcomer: FetchSession, now_ms: int) -> bool:
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            return self._push_out(oldest)
        candidates = [
            session
            for session in self._sessions.values()
            if now_ms - session.created_ms > self._eviction_ms
            and (newcomer.is_privileged or not session.is_privileged)
        ]
        if not candidates:
            return False
        smallest = min(candidates, key=_rank)
        if _rank(newcomer) <= _rank(smallest):
            return False
        return self._push_out(smallest)

    def _push_out(self, session: FetchSession) -> bool:
        del self._sessions[session.session_id]
        self._evicted.append(session)
        self.evictions += 1
        return True

    def take_evicted(self) -> list[FetchSession]:
        """The sessions pushed out since the last call: whoever watches for them stops."""
        evicted, self._evicted = self._evicted, []
        return evicted


def _rank(session: FetchSession) -> tuple[bool, int]:
    return session.is_privileged, len(session.partitions)
