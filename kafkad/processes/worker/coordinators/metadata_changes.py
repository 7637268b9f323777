"""Which changes of the metadata do the coordinators of a worker have to hear of?"""

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


def tell_coordinators(shards: CoordinatorShards, changes: Sequence[Change]) -> None:
    if any(isinstance(change, _CONFIGURING) for change in changes):
        shards.configure()
    gone = deleted_topics(changes)
    if gone:
        shards.topics_deleted(gone)
