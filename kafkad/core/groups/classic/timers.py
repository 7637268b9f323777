"""The timer keys of classic groups: kind of timer, group and member."""

from enum import Enum
from typing import NamedTuple


class ClassicTimer(Enum):
    """SESSION: the session of a member or pending id. JOIN: the wait for joins. SYNC: the wait for syncs."""

    SESSION = "session"
    JOIN = "join"
    SYNC = "sync"


class ClassicTimerKey(NamedTuple):
    """A tuple for speed: each heartbeat makes one. `member_id` is empty for a timer of the whole group."""

    kind: ClassicTimer
    group_id: str
    member_id: str


def session_key(group_id: str, member_id: str) -> ClassicTimerKey:
    return ClassicTimerKey(ClassicTimer.SESSION, group_id, member_id)


def join_key(group_id: str) -> ClassicTimerKey:
    return ClassicTimerKey(ClassicTimer.JOIN, group_id, "")


def sync_key(group_id: str) -> ClassicTimerKey:
    return ClassicTimerKey(ClassicTimer.SYNC, group_id, "")
