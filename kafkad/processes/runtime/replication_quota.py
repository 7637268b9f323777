"""The replication quota of one process, from the configured plugin."""

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.config import BrokerConfig
from kafkad.core.quotas.replication_quota import ReplicationQuotaManager, ReplicationSide
from kafkad.plugin_loading import Plugins, chosen


class CountedQuota:
    """Adds the bytes of throttled replicas to `block[counter]` while there is a limit."""

    def __init__(
        self,
        manager: ReplicationQuotaManager,
        side: ReplicationSide,
        processes: int,
        block: CounterBlock,
        counter: int,
    ) -> None:
        self._manager = manager
        self._side = side
        self._processes = processes
        self._block = block
        self._counter = counter

    def configure(self, config: BrokerConfig) -> None:
        """Apply the broker's options."""
        self._manager.configure(config.texts.written, self._side, self._processes)

    @property
    def is_unlimited(self) -> bool:
        return self._manager.is_unlimited

    def record(self, size: int, now_ms: int) -> None:
        self._manager.record(size, now_ms)
        if not self._manager.is_unlimited:
            self._block[self._counter] += size

    def pause_ms(self, now_ms: int) -> int:
        return self._manager.pause_ms(now_ms)


def replication_quota(
    plugins: Plugins, config: BrokerConfig, side: ReplicationSide, processes: int, block: CounterBlock, counter: int
) -> CountedQuota:
    name = config.plugins.replication_quota_manager
    manager = chosen(plugins.replication_quota_managers, name, "kafkad.replication.quota.manager")
    quota = CountedQuota(manager, side, processes, block, counter)
    quota.configure(config)
    return quota
