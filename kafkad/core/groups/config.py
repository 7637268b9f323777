"""The settings of the group coordinator as plain numbers, in milliseconds and bytes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms"""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms"""
    max_size: int = 2**31 - 1
    """group.max.size"""
    new_member_join_timeout_ms: int = 5 * 60 * 1000
    """Maximum wait of a new member's join, as it sends no heartbeats yet. A constant in Kafka too."""
    offset_metadata_max_bytes: int = 4096
    """offset.metadata.max.bytes: the limit of the metadata of a committed offset, in UTF-16 units."""
    offsets_retention_ms: int = 10_080 * 60 * 1000
    """offsets.retention.minutes"""
    offsets_retention_check_interval_ms: int = 600_000
    """offsets.retention.check.interval.ms"""
