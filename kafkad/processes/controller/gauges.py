"""The gauges of the controller process: partitions of the metadata, and failed log directories.

Gauges of the whole cluster are 0 except on the active controller, as in Apache Kafka.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kafkad.adapters.shared_memory.counters import CounterBlock
from kafkad.core.controller.deltas import MetadataDelta, topics_changed
from kafkad.core.controller.elected.balancing import has_preferred_leader
from kafkad.core.controller.image import MetadataImage, Topic
from kafkad.core.metrics.catalogue import (
    ACTIVE_CONTROLLER,
    GLOBAL_PARTITIONS,
    GLOBAL_TOPICS,
    LOG_DIR_OFFLINE,
    OFFLINE_LOG_DIRS,
    OFFLINE_PARTITIONS,
    PREFERRED_REPLICA_IMBALANCE,
    REASSIGNING_PARTITIONS,
    of_log_dir,
)


def count_offline(block: CounterBlock, offline: Collection[int]) -> None:
    """`offline` are the failed log directories, which stay offline until the broker restarts."""
    block[OFFLINE_LOG_DIRS] = len(offline)
    for log_dir in offline:
        block[of_log_dir(LOG_DIR_OFFLINE, log_dir)] = 1


class PartitionGauges:
    """ACTIVE_CONTROLLER is set on the active controller.

    Only changed topics are counted again: there may be a hundred thousand others.
    """

    def __init__(self, block: CounterBlock, broker_id: int) -> None:
        self._block = block
        self._broker_id = broker_id
        self._image = MetadataImage()
        self._tally = _Tally()
        self._changed: set[str] | None = None
        """The topics to count; None before the first count: all."""

    def changed(self, changes: Iterable[MetadataDelta]) -> None:
        """Note the changed topics for the next `count`."""
        if self._changed is not None:
            self._changed.update(topics_changed(changes))

    def count(self, image: MetadataImage) -> None:
        """Show the gauges of `image`, which has all changes so far."""
        if self._changed is None:
            self._add(image.topics.values(), 1)
        else:
            for topics, sign in ((self._image.topics, -1), (image.topics, 1)):
                self._add((topics[name] for name in self._changed if name in topics), sign)
        self._changed = set()
        self._image = image
        self._show()

    def _add(self, topics: Iterable[Topic], sign: int) -> None:
        tally = self._tally
        for topic in topics:
            for row in topic.partitions:
                tally.partitions += sign
                tally.offline += sign * (row.leader < 0)
                tally.not_preferred += sign * (not has_preferred_leader(row))
                tally.reassigning += sign * (row.leader == self._broker_id and bool(row.adding or row.removing))

    def _show(self) -> None:
        block, tally = self._block, self._tally
        is_controller = bool(block[ACTIVE_CONTROLLER])
        block[REASSIGNING_PARTITIONS] = tally.reassigning
        block[GLOBAL_TOPICS] = len(self._image.topics) if is_controller else 0
        block[GLOBAL_PARTITIONS] = tally.partitions if is_controller else 0
        block[OFFLINE_PARTITIONS] = tally.offline if is_controller else 0
        block[PREFERRED_REPLICA_IMBALANCE] = tally.not_preferred if is_controller else 0


@dataclass(slots=True)
class _Tally:
    partitions: int = 0
    offline: int = 0
    not_preferred: int = 0
    reassigning: int = 0
