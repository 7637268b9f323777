"""The versions of requests between brokers at an `inter.broker.protocol.version`.

As in Apache Kafka on ZooKeeper, the sender's setting fixes the versions without negotiation, and a broker closes the
connection of an unknown version. So a cluster whose oldest broker is a 2.8 uses 2.8 everywhere.
"""

from typing import NamedTuple

LEVELS = (
    *("2.8-IV1", "3.0-IV0", "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0"),
    *("3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
)
"""The levels that this broker supports, oldest first."""


class ProtocolVersions(NamedTuple):
    """Versions of requests. `alter_partition` is the newest version that every controller of such a cluster supports,
    as in Apache Kafka. `verifies`: coordinators on other brokers can verify a transaction (KIP-890).
    """

    leader_and_isr: int
    update_metadata: int
    stop_replica: int
    fetch: int
    list_offsets: int
    alter_partition: int
    verifies: bool

    @property
    def names_broker_epochs(self) -> bool:
        """Whether followers send broker epochs in fetches, and leaders in AlterPartition (KIP-903)."""
        return self.fetch >= 15 and self.alter_partition >= 3


def level_of(setting: str) -> str | None:
    """The level of a setting: 3.5 and 3.5.1 are the last one of 3.5. None: there is none."""
    if setting in LEVELS:
        return setting
    parts = setting.split(".")
    if not 2 <= len(parts) <= 3 or not all(part.isdigit() for part in parts):
        return None
    of_release = [level for level in LEVELS if level.startswith(f"{parts[0]}.{parts[1]}-")]
    return of_release[-1] if of_release else None


def protocol_versions(setting: str) -> ProtocolVersions:
    """Raises ValueError for a setting without a level."""
    level = level_of(setting)
    if level is None:
        raise ValueError(f"{setting} is not a protocol version from {LEVELS[0]} to {LEVELS[-1]}")
    at = LEVELS.index(level)

    def latest(*steps: tuple[str, int]) -> int:
        """The version of the last level in `steps` that is not newer than this one."""
        return max(version for first, version in steps if LEVELS.index(first) <= at)

    return ProtocolVersions(
        leader_and_isr=latest(("2.8-IV1", 5), ("3.2-IV0", 6), ("3.4-IV0", 7)),
        update_metadata=latest(("2.8-IV1", 7), ("3.4-IV0", 8)),
        stop_replica=latest(("2.8-IV1", 3), ("3.4-IV0", 4)),
        fetch=latest(
            *(("2.8-IV1", 12), ("3.1-IV0", 13), ("3.5-IV0", 14)),
            *(("3.5-IV1", 15), ("3.7-IV4", 16), ("3.9-IV0", 17)),
        ),
        list_offsets=latest(("2.8-IV1", 6), ("3.0-IV1", 7), ("3.5-IV0", 8), ("3.9-IV0", 9)),
        alter_partition=latest(("2.8-IV1", 0), ("3.2-IV0", 1), ("3.3-IV0", 2), ("3.5-IV1", 3)),
        verifies=at >= LEVELS.index("3.5-IV0"),
    )


LATEST = protocol_versions(LEVELS[-1])
