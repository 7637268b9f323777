"""Quotas in bytes per second for throttled replicas, from the configuration (KIP-73: ReplicationQuotaManager)."""

from collections.abc import Mapping, Sequence

from kafkad.api import (
    NO_LIMIT,
    ReplicationQuota,
    ReplicationQuotaManager,
    ReplicationSide,
    hookimpl,
    share_of_rate,
)


class ThrottledRate:
    """`leader.replication.throttled.rate` or `follower.replication.throttled.rate`, averaged over the windows of
    `replication.quota.window.num`.
    """

    name = "throttled-rate"

    def __init__(self) -> None:
        self._quota = ReplicationQuota(num_samples=11, window_ms=1_000, now_ms=0)

    @property
    def is_unlimited(self) -> bool:
        return self._quota.is_unlimited

    def configure(self, settings: Mapping[str, str], side: ReplicationSide, processes: int) -> None:
        num_samples = int(settings.get("replication.quota.window.num", "11"))
        window_ms = int(settings.get("replication.quota.window.size.seconds", "1")) * 1000
        if self._quota.windows != (num_samples, window_ms):
            self._quota = ReplicationQuota(num_samples=num_samples, window_ms=window_ms, now_ms=0)
        rate = int(settings.get(f"{side.value}.replication.throttled.rate", str(NO_LIMIT)))
        self._quota.rate = share_of_rate(rate, processes)

    def record(self, size: int, now_ms: int) -> None:
        self._quota.record(size, now_ms)

    def pause_ms(self, now_ms: int) -> int:
        return self._quota.pause_ms(now_ms)


@hookimpl(trylast=True)
def kafkad_register_replication_quota_managers() -> Sequence[ReplicationQuotaManager]:
    return [ThrottledRate()]
