"""Finalized feature levels of the cluster, and which changes are allowed (KIP-584, KIP-1022).

A feature level defines how brokers and clients communicate, so it belongs to the cluster, not to a software version.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.quoting import quoted

GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"


class Levels(NamedTuple):
    """The levels that this version supports, and the level of a new cluster."""

    lowest: int
    highest: int
    first: int


SUPPORTED: Mapping[str, Levels] = {GROUP_VERSION: Levels(0, 1, 1), TRANSACTION_VERSION: Levels(0, 2, 2)}


# Brokers of Apache Kafka on ZooKeeper reject a lowest level of 0 in a registration.
REGISTERED: Mapping[str, tuple[int, int]] = {
    name: (max(levels.lowest, 1), levels.highest) for name, levels in SUPPORTED.items()
}
"""The levels that this version registers in a cluster, whose controller finalizes only levels that all support."""


class UpgradeType(IntEnum):
    """The numbers of the protocol."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """`upgrade_type` is the number in the request, which may be invalid."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def first_levels() -> dict[str, int]:
    """The levels of a new cluster."""
    return {name: levels.first for name, levels in SUPPORTED.items() if levels.first}


def unsupported_features(registered: Mapping[str, tuple[int, int]], levels: Mapping[str, int]) -> list[str]:
    """The finalized features that a broker with these registered levels does not support at the finalized level."""
    return [name for name, level in levels.items() if not (at := registered.get(name, (0, -1)))[0] <= level <= at[1]]


def updated(current: Mapping[str, int], updates: Sequence[FeatureUpdate], broker_id: int) -> dict[str, int]:
    """The levels after `updates`, all or none. Raises INVALID_UPDATE_VERSION. Level 0 removes the feature."""
    levels = dict(current)
    for update in updates:
        error = _update_error(update, current.get(update.name, 0), broker_id)
        if error is not None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid update version {update.level} for feature {quoted(update.name)}. {error}",
            )
        levels[update.name] = update.level
    return {name: level for name, level in levels.items() if level}


def _update_error(update: FeatureUpdate, now: int, broker_id: int) -> str | None:
    level = update.level
    if update.upgrade_type not in (UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    supported = SUPPORTED.get(update.name, Levels(0, 0, 0))
    if not supported.lowest <= level <= supported.highest:
        if supported.highest == 0:
            return f"Local controller {broker_id} does not support this feature."
        return f"Local controller {broker_id} only supports versions {supported.lowest}-{supported.highest}"
    if level < now and update.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > now and update.upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None
