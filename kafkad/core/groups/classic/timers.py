"""The keys of the timers of classic groups: what runs out, and whose it is."""

from enum import Enum
from typing import NamedTuple


class ClassicTimer(Enum):
    """SESSION: a member says nothing (pending ids too). JOIN: a rebalance waits for joins. SYNC: for syncs."""

    SESSION = "session"
    JOIN = "join"
    SYNC = "sync"


class ClassicTimerKey(NamedTuple):
    """A tuple: one is made for each heartbeat. `member_id` is empty where the timer is the group's."""

    kind: ClassicTimer
    group_id: str
    member_id: str


def session_key(group_id: str, member_id: str) -> ClassicTimerKey:
    return ClassicTimerKey(ClassicTimer.SESSION, group_id, member_id)


def join_key(group_id: str) -> ClassicTimerKey:
    return ClassicTimerKey(ClassicTimer.JOIN, group_id, "")


def sync_key(group_id: str) -> ClassicTimerKey:
    return ClassicTimerKey(ClassicTimer.SYNC, group_id, "")
