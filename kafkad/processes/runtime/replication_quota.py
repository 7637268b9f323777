"""The quota of a process that moves records between brokers, whichever plugin it came from."""

from collections.abc import Callable

from kafkad.config import BrokerConfig
from kafkad.core.quotas.replication_quota import ReplicationQuotaManager, ReplicationSide
from kafkad.plugin_loading import Plugins, chosen


class CountedQuota:
    """`counted` gets what throttled replicas move while there is a limit."""

    def __init__(
        self, manager: ReplicationQuotaManager, side: ReplicationSide, processes: int, counted: Callable[[int], None]
    ) -> None:
        self._manager = manager
        self._side = side
        self._processes = processes
        self._counted = counted

    def configure(self, config: BrokerConfig) -> None:
        """Take over the broker's options, which may have changed."""
        self._manager.configure(config.texts.written, self._side, self._processes)

    @property
    def is_unlimited(self) -> bool:
        return self._manager.is_unlimited

    def record(self, size: int, now_ms: int) -> None:
        self._manager.record(size, now_ms)
        if not self._manager.is_unlimited:
            self._counted(size)

    def pause_ms(self, now_ms: int) -> int:
        return self._manager.pause_ms(now_ms)


def replication_quota(
    plugins: Plugins, config: BrokerConfig, side: ReplicationSide, processes: int, counted: Callable[[int], None]
) -> CountedQuota:
    name = config.plugins.replication_quota_manager
    manager = chosen(plugins.replication_quota_managers, name, "kafkad.replication.quota.manager")
    quota = CountedQuota(manager, side, processes, counted)
    quota.configure(config)
    return quota
