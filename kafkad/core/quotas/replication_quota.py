"""How much may throttled replicas transfer per second, and which are throttled? (KIP-73, Kafka's
ReplicationQuotaManager)

Each process has its share of the broker's rate. Above it, fetches of throttled replicas pause until the rate, averaged
over the windows of `replication.quota.window.num`, is below the limit again. In-sync replicas are never throttled:
otherwise they would drop out of the ISR.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from kafkad.core.quotas.rate import SampledRate

FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
NO_LIMIT = 2**63 - 1
MAX_PAUSE_MS = 1_000
"""The limit may change meanwhile."""


def is_throttled(configs: Mapping[str, str], option: str, partition: int, broker_id: int) -> bool:
    """Whether the topic's config lists this replica: `*`, or partition:broker pairs."""
    listed = [entry.strip() for entry in configs.get(option, "").split(",")]
    return "*" in listed or f"{partition}:{broker_id}" in listed


def share_of_rate(rate: int, processes: int) -> int:
    """The rate of each of the processes."""
    return rate if rate == NO_LIMIT else -(-rate // processes)


class ReplicaQuota(Protocol):
    """The transfers of throttled replicas in one process. Times are monotonic."""

    @property
    def is_unlimited(self) -> bool:
        """Whether no replica is throttled; then nothing is recorded."""

    def record(self, size: int, now_ms: int) -> None:
        """A throttled replica has transferred `size` bytes."""

    def pause_ms(self, now_ms: int) -> int:
        """0 while throttled replicas may transfer more; otherwise the time until the next check."""


class ReplicationSide(Enum):
    """The role of this broker's replicas for which a process transfers records."""

    LEADER = "leader"
    """A network process, from which followers fetch."""
    FOLLOWER = "follower"
    """A fetcher process, which fetches from leaders on other brokers."""


class ReplicationQuotaManager(ReplicaQuota, Protocol):
    """The limit of throttled replicas, from any plugin.

    One object in each network process and each fetcher (it is copied by the fork), called from that process's loop
    only. Which replicas are throttled is the topics' own config.
    """

    @property
    def name(self) -> str: ...

    def configure(self, settings: Mapping[str, str], side: ReplicationSide, processes: int) -> None:
        """Apply the broker's options, as text; called again after changes. Counts are kept.

        `processes` of this side share the broker's rate.
        """


class ReplicationQuota:
    """The quota of one process; mutable. `rate` is in bytes per second, NO_LIMIT for none."""

    def __init__(self, *, num_samples: int, window_ms: int, now_ms: int) -> None:
        self.rate = NO_LIMIT
        self.windows = num_samples, window_ms
        self._moved = SampledRate(num_samples=num_samples, window_ms=window_ms, now_ms=now_ms)

    @property
    def is_unlimited(self) -> bool:
        return self.rate == NO_LIMIT

    def record(self, size: int, now_ms: int) -> None:
        """A throttled replica has transferred `size` bytes."""
        self._moved.record(size, now_ms)

    def pause_ms(self, now_ms: int) -> int:
        """0 while the rate is within the limit; otherwise the time until the next check."""
        if self.is_unlimited:
            return 0
        moved, within_ms = self._moved.measure(now_ms)
        if moved * 1000 <= self.rate * within_ms:
            return 0
        if self.rate <= 0:
            return MAX_PAUSE_MS
        return max(1, min(MAX_PAUSE_MS, moved * 1000 // self.rate - within_ms))
