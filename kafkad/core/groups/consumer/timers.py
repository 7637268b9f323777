"""The timer keys of KIP-848 groups: kind of timer, group and member."""

from collections.abc import Hashable, Iterable
from enum import Enum
from typing import NamedTuple


class ConsumerTimer(Enum):
    """SESSION: the session of a member. REBALANCE: the wait for a revocation. JOIN and SYNC: the wait for the JoinGroup
    or SyncGroup of a member with the classic protocol."""

    SESSION = "session"
    REBALANCE = "rebalance"
    JOIN = "join"
    SYNC = "sync"


class ConsumerTimerKey(NamedTuple):
    kind: ConsumerTimer
    group_id: str
    member_id: str


def cancel_timers(group_id: str, member_ids: Iterable[str]) -> list[tuple[Hashable, int | None]]:
    """Cancel all timers of these members."""
    return [(ConsumerTimerKey(kind, group_id, member_id), None) for member_id in member_ids for kind in ConsumerTimer]
