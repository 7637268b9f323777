"""How much may throttled replicas move a second, and which are throttled? (KIP-73, Kafka's ReplicationQuotaManager)

Each process has its share of the broker's rate. What is over it is not refused: the replica is left alone until the
rate, averaged over the windows of `replication.quota.window.num`, is below the limit again. Replicas in sync are never
held back, or a throttle would cost partitions their followers.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from kafkad.core.quotas.rate import SampledRate

FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
NO_LIMIT = 2**63 - 1
LONGEST_PAUSE_MS = 1_000
"""The limit may be another one by then."""


def is_throttled(configs: Mapping[str, str], option: str, partition: int, broker_id: int) -> bool:
    """Whether a topic's configs name this replica of it: `*`, or partition:broker pairs."""
    named = [each.strip() for each in configs.get(option, "").split(",")]
    return "*" in named or f"{partition}:{broker_id}" in named


def share_of_rate(rate: int, processes: int) -> int:
    """Of each of so many processes."""
    return rate if rate == NO_LIMIT else -(-rate // processes)


class ReplicaQuota(Protocol):
    """What throttled replicas move in one process. Times are monotonic."""

    @property
    def is_unlimited(self) -> bool:
        """Whether nobody is held back: then nothing is recorded."""

    def record(self, size: int, now_ms: int) -> None:
        """A throttled replica has moved `size` bytes."""

    def pause_ms(self, now_ms: int) -> int:
        """0 while throttled replicas may move more; otherwise when to look again."""


class ReplicationSide(Enum):
    """Which replicas of this broker a process moves records for."""

    LEADER = "leader"
    """A network process: followers read from here."""
    FOLLOWER = "follower"
    """A fetcher: it reads from leaders elsewhere."""


class ReplicationQuotaManager(ReplicaQuota, Protocol):
    """The limit of throttled replicas, whichever plugin it came from.

    One object in each network process and each fetcher (it is copied by the fork), called from that process's loop
    only. Which replicas are throttled is the topics' own config.
    """

    @property
    def name(self) -> str: ...

    def configure(self, settings: Mapping[str, str], side: ReplicationSide, processes: int) -> None:
        """Take over the broker's options, as text; called again when they have changed. Counts are kept.

        `processes` of this side share what the broker may move.
        """


class ReplicationQuota:
    """A mutable object for one process. `rate` is in bytes a second, NO_LIMIT if there is none."""

    def __init__(self, *, num_samples: int, window_ms: int, now_ms: int) -> None:
        self.rate = NO_LIMIT
        self.windows = num_samples, window_ms
        self._moved = SampledRate(num_samples=num_samples, window_ms=window_ms, now_ms=now_ms)

    @property
    def is_unlimited(self) -> bool:
        return self.rate == NO_LIMIT

    def record(self, size: int, now_ms: int) -> None:
        """A throttled replica has moved `size` bytes."""
        self._moved.record(size, now_ms)

    def pause_ms(self, now_ms: int) -> int:
        """0 while the rate is not over the limit; otherwise when to look again."""
        if self.is_unlimited:
            return 0
        moved, within_ms = self._moved.measure(now_ms)
        if moved * 1000 <= self.rate * within_ms:
            return 0
        if self.rate <= 0:
            return LONGEST_PAUSE_MS
        return max(1, min(LONGEST_PAUSE_MS, moved * 1000 // self.rate - within_ms))
