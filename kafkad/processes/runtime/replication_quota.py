"""The replication quota of one process, from the configured plugin."""

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.config import BrokerConfig
from kafkad.core.metrics.catalogue import THROTTLED_FOLLOWER_BYTES, THROTTLED_LEADER_BYTES
from kafkad.core.quotas.replication_quota import ReplicationQuotaManager, ReplicationSide
from kafkad.plugin_loading import Plugins, chosen


class CountedQuota:
    """Counts the bytes of throttled replicas in `block` while there is a limit."""

    def __init__(
        self, manager: ReplicationQuotaManager, side: ReplicationSide, processes: int, block: CounterBlock
    ) -> None:
        self._manager = manager
        self._side = side
        self._processes = processes
        self._block = block

    def configure(self, config: BrokerConfig) -> None:
        """Apply the broker's options."""
        self._manager.configure(config.texts.written, self._side, self._processes)

    @property
    def is_unlimited(self) -> bool:
        return self._manager.is_unlimited

    def record(self, size: int, now_ms: int) -> None:
        self._manager.record(size, now_ms)
        if self._manager.is_unlimited:
            return
        if self._side is ReplicationSide.LEADER:
            self._block[THROTTLED_LEADER_BYTES] += size
        else:
            self._block[THROTTLED_FOLLOWER_BYTES] += size

    def pause_ms(self, now_ms: int) -> int:
        return self._manager.pause_ms(now_ms)


def replication_quota(
    plugins: Plugins, config: BrokerConfig, side: ReplicationSide, processes: int, block: CounterBlock
) -> CountedQuota:
    name = config.plugins.replication_quota_manager
    manager = chosen(plugins.replication_quota_managers, name, "kafkad.replication.quota.manager")
    quota = CountedQuota(manager, side, processes, block)
    quota.configure(config)
    return quota
