"""The sessions that read each partition, the watches at the owners, and the fetch offsets of followers for the owners.

Each partition has at most three watches at its owner, for any number of sessions: for its high watermark, for its last
stable offset and, if followers read it, for its log end. Separate watches avoid useless measurements: during a long
transaction the last stable offset stays, while every append moves the high watermark.
"""

from collections.abc import Iterable, Sequence

from kafkad.core.partition_slot import STATE_ONLINE, SlotReader
from kafkad.core.sessions.fetch_session import FetchSession
from kafkad.core.types import ISOLATIONS
from kafkad.handlers.partitions.fetch_measure import FollowerFetchState
from kafkad.wire.processes.descriptors import pack_watch, short_topic_id, watch_key, watched_slot
from kafkad.wire.processes.follower_progress import FollowerFetched, pack_follower_fetched

MAX_CHECKED = 8
"""With more new watches, reading each slot would cost more than waking the owner."""


class FetchWatches:
    """`outgoing` holds packed WATCH entries by worker, for the message that leaves at the end of the loop pass."""

    def __init__(self, slots: SlotReader, workers: int) -> None:
        self.outgoing: list[list[bytes]] = [[] for _ in range(workers)]
        self._slots = slots
        self._new: list[list[tuple[int, int]]] = [[] for _ in range(workers)]
        """(key, offset) of the entries in `outgoing`."""
        self._watched: dict[int, int] = {}
        """Owner of the watch by key."""
        self.interested: dict[int, dict[FetchSession, None]] = {}
        self.progress: dict[int, list[bytes]] = {}
        """Packed FOLLOWER_FETCHED entries by worker, for the message that leaves at the end of the loop pass."""

    def bound(self, session: FetchSession, slot: int) -> None:
        """`session` reads `slot` from now on."""
        self.interested.setdefault(slot, {})[session] = None

    def unbind(self, session: FetchSession, slot: int) -> None:
        interested = self.interested.get(slot)
        if interested is not None:
            interested.pop(session, None)
            if not interested:
                del self.interested[slot]

    def remove(self, slot: int) -> Iterable[FetchSession]:
        """The partition was removed; returns the sessions that read it."""
        return self.interested.pop(slot, {})

    def watch(self, slot: int, offset: int, isolation: int) -> None:
        """Request a notification from the owner when the end of readable records moves beyond `offset`."""
        key = watch_key(slot, isolation)
        if key in self._watched:
            return
        published = self._slots.read(slot)
        if published.owner < 0:
            return
        self._watched[key] = published.owner
        self._new[published.owner].append((key, offset))
        self.outgoing[published.owner].append(pack_watch(key, short_topic_id(published.topic_id), offset))

    def report(self, session: FetchSession, followed: Sequence[FollowerFetchState], now_ms: int) -> None:
        """Report the fetch state of the follower of `session` to the owners of the partitions."""
        replica = session.replica_id, session.replica_epoch
        for owner, slot, generation, epoch, offset, log_start in followed:
            row = FollowerFetched(slot, generation, epoch, *replica, offset, log_start, now_ms)
            self.progress.setdefault(owner, []).append(pack_follower_fetched(row))

    def has_changes(self, worker: int) -> bool:
        """Whether a slot has moved since its watch was sent (after a fence), so that the owner must be woken.

        Otherwise the owner reads the message before the next change: it publishes slots only while it is awake.
        """
        new, self._new[worker] = self._new[worker], []
        return len(new) > MAX_CHECKED or not all(self._is_unchanged(worker, key, offset) for key, offset in new)

    def _is_unchanged(self, worker: int, key: int, offset: int) -> bool:
        slot, isolation = watched_slot(key)
        published = self._slots.read(slot)
        if published.owner != worker or published.state != STATE_ONLINE:
            return False
        return published.upper_offset(isolation) <= offset

    def moved(self, keys: Iterable[int]) -> Iterable[FetchSession]:
        """The owners notified that these offsets moved; returns the sessions that may wait for them."""
        touched: dict[FetchSession, None] = {}
        for key in keys:
            self._watched.pop(key, None)
            slot, isolation = watched_slot(key)
            for session in self.interested.get(slot, ()):
                session.slot_changed(slot)
                if session.isolation == isolation:
                    touched[session] = None
        return touched

    def changed(self, slots: Iterable[int]) -> Iterable[FetchSession]:
        """These partitions changed, and their watches are invalid; returns the sessions that read them."""
        keys = (watch_key(slot, isolation) for slot in slots for isolation in ISOLATIONS)
        return self.moved(keys)

    def owner_lost(self, worker: int) -> Iterable[FetchSession]:
        """A worker died, with its watches and the fetch state of followers; returns the affected sessions."""
        self.outgoing[worker].clear()
        self._new[worker].clear()
        self.progress.pop(worker, None)
        touched = dict.fromkeys(self.moved([key for key, owner in self._watched.items() if owner == worker]))
        for slot, sessions in self.interested.items():
            followers = [session for session in sessions if session.log_starts]
            if followers and self._slots.read(slot).owner == worker:
                for session in followers:
                    session.report_again(slot)
                    touched[session] = None
        return touched
