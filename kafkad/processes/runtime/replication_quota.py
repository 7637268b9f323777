"""The quota of a process that moves records between brokers, from the broker's options."""

from collections.abc import Callable

from kafkad.config import BrokerConfig
from kafkad.core.quotas.replication_quota import ReplicationQuota
from kafkad.core.settings.values import integer


def replication_quota(config: BrokerConfig, now_ms: int, counted: Callable[[int], None]) -> ReplicationQuota:
    """Without a limit; its rate is averaged as the options say. `counted` gets what throttled replicas move."""
    return ReplicationQuota(
        num_samples=integer(config.values, "replication.quota.window.num"),
        window_ms=integer(config.values, "replication.quota.window.size.seconds") * 1000,
        now_ms=now_ms,
        counted=counted,
    )
