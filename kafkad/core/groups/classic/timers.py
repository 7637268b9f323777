"""The keys of the timers of classic groups: which time limit of which group or member."""

from enum import Enum
from typing import NamedTuple


class ClassicTimer(Enum):
    """SESSION: a member or pending id is silent. JOIN: a rebalance waits for joins. SYNC: it waits for syncs."""

    SESSION = "session"
    JOIN = "join"
    SYNC = "sync"


class ClassicTimerKey(NamedTuple):
    """A tuple: one is made for each heartbeat. `member_id` is empty for a timer of the whole group."""

    kind: ClassicTimer
    group_id: str
    member_id: str


def session_key(group_id: str, member_id: str) -> ClassicTimerKey:
    return ClassicTimerKey(ClassicTimer.SESSION, group_id, member_id)


def join_key(group_id: str) -> ClassicTimerKey:
    return ClassicTimerKey(ClassicTimer.JOIN, group_id, "")


def sync_key(group_id: str) -> ClassicTimerKey:
    return ClassicTimerKey(ClassicTimer.SYNC, group_id, "")
