"""The keys of the timers of KIP-848 groups: what runs out, and whose it is."""

from collections.abc import Hashable, Iterable
from enum import Enum
from typing import NamedTuple


class ConsumerTimer(Enum):
    """SESSION: a member says nothing. REBALANCE: it does not give up what it was told to. JOIN and SYNC are for
    members that speak the classic protocol: they don't come again, or don't ask for their assignment."""

    SESSION = "session"
    REBALANCE = "rebalance"
    JOIN = "join"
    SYNC = "sync"


class ConsumerTimerKey(NamedTuple):
    kind: ConsumerTimer
    group_id: str
    member_id: str


def no_timers(group_id: str, member_ids: Iterable[str]) -> list[tuple[Hashable, int | None]]:
    """Nothing of these members runs out any more."""
    return [(ConsumerTimerKey(kind, group_id, member_id), None) for member_id in member_ids for kind in ConsumerTimer]
