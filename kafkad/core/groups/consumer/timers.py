"""The keys of the timers of KIP-848 groups: which time limit of which group or member."""

from collections.abc import Hashable, Iterable
from enum import Enum
from typing import NamedTuple


class ConsumerTimer(Enum):
    """SESSION: the member is silent. REBALANCE: it does not revoke partitions. JOIN and SYNC are for members that use
    the classic protocol: they don't join again, or don't send SyncGroup."""

    SESSION = "session"
    REBALANCE = "rebalance"
    JOIN = "join"
    SYNC = "sync"


class ConsumerTimerKey(NamedTuple):
    kind: ConsumerTimer
    group_id: str
    member_id: str


def no_timers(group_id: str, member_ids: Iterable[str]) -> list[tuple[Hashable, int | None]]:
    """Cancels all timers of these members."""
    return [(ConsumerTimerKey(kind, group_id, member_id), None) for member_id in member_ids for kind in ConsumerTimer]
