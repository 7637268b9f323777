"""Notifies the coordinators of a worker of changes of the metadata."""

from collections.abc import Sequence

from kafkad.core.controller.deltas import (
    BrokerConfigChanged,
    Change,
    FeaturesChanged,
    GroupConfigChanged,
    Snapshot,
    deleted_topics,
)
from kafkad.processes.worker.coordinators.shards import CoordinatorShards

_CONFIGURING = (BrokerConfigChanged, FeaturesChanged, GroupConfigChanged, Snapshot)


def notify_coordinators(shards: CoordinatorShards, changes: Sequence[Change]) -> None:
    if any(isinstance(change, _CONFIGURING) for change in changes):
        shards.configure()
    deleted = deleted_topics(changes)
    if deleted:
        shards.topics_deleted(deleted)
