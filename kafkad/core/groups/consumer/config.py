"""The settings of KIP-848 groups: defaults of the broker, and overrides of single groups."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from kafkad.core.groups.consumer.assignors import GroupAssignor


class MigrationPolicy(Enum):
    """group.consumer.migration.policy: whether groups with members may change their protocol."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def may_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def may_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """Defaults are Kafka's. The first of `assignors` is the default."""

    assignors: Mapping[str, GroupAssignor]
    session_timeout_ms: int = 45_000
    """group.consumer.session.timeout.ms"""
    heartbeat_interval_ms: int = 5_000
    """group.consumer.heartbeat.interval.ms"""
    assignment_interval_ms: int = 1_000
    """group.consumer.assignment.interval.ms"""
    max_size: int = 2**31 - 1
    """group.consumer.max.size"""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000
    """group.consumer.regex.refresh.interval.ms"""
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Configurations of the groups entity by group id (consumer.session.timeout.ms, …)."""

    def session_timeout_of(self, group_id: str) -> int:
        return self._of(group_id, "consumer.session.timeout.ms", self.session_timeout_ms)

    def heartbeat_interval_of(self, group_id: str) -> int:
        return self._of(group_id, "consumer.heartbeat.interval.ms", self.heartbeat_interval_ms)

    def assignment_interval_of(self, group_id: str) -> int:
        return self._of(group_id, "consumer.assignment.interval.ms", self.assignment_interval_ms)

    def _of(self, group_id: str, name: str, default: int) -> int:
        text = self.group_configs.get(group_id, {}).get(name)
        return default if text is None else int(text)
