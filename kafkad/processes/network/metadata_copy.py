"""This process's copy of the metadata: the image, updated by deltas, and the routing built from it."""

from collections.abc import Sequence
from typing import NamedTuple

from kafkad.core.controller.deltas import (
    MetadataDelta,
    PartitionsAdded,
    PartitionsChanged,
    ReplicasRemoved,
    Snapshot,
    TopicCreated,
    TopicDeleted,
)
from kafkad.core.controller.image import NO_LEADER, NO_OWNER, NO_SLOT, MetadataImage, Partition, Topic
from kafkad.core.controller.topics.names import is_internal
from kafkad.handlers.partitions.partition_routes import Routing, TopicRoute


class Moved(NamedTuple):
    """Slots with changed or removed partitions, without new ones."""

    changed: list[int]
    removed: list[int]


class MetadataCopy:
    """`names` has (topic, partition) by slot, from which the name of its directory follows."""

    def __init__(self, broker_id: int | None = None, log_dirs: Sequence[str] = ()) -> None:
        self._broker_id = broker_id
        self._log_dirs = log_dirs
        self.image = MetadataImage()
        self.routing = Routing()
        self.names: dict[int, tuple[str, int]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no snapshot was received yet."""
        return not self.image.cluster_id

    def directory_of(self, slot: int, log_dir: int) -> str | None:
        """The directory of the partition in the slot; None when the metadata has no partition there."""
        name = self.names.get(slot)
        return None if name is None else f"{self._log_dirs[log_dir]}/{name[0]}-{name[1]}"

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Moved:
        """`image` is the metadata after `delta`."""
        self.image = image
        moved = Moved([], [])
        for change in delta.changes:
            match change:
                case TopicCreated(topic):
                    self._put(topic)
                case PartitionsAdded(name, _):
                    self._put(image.topics[name])
                case PartitionsChanged(name, _):
                    self._put(image.topics[name])
                    moved.changed.extend(slot for slot in self.routing.by_name[name].slots if slot != NO_SLOT)
                case TopicDeleted(name, _, slots):
                    self.routing.remove(name)
                    moved.removed.extend(slot for slot in slots if self.names.pop(slot, None) is not None)
                case ReplicasRemoved(name, _, _, slots):
                    moved.removed.extend(slot for slot in slots if self.names.pop(slot, None) is not None)
                    if name in image.topics:
                        self._put(image.topics[name])
                case Snapshot():
                    self._put_all(moved)
                case _:
                    continue
        return moved

    def _put_all(self, moved: Moved) -> None:
        before = list(self.names)
        for name in [name for name in self.routing.by_name if name not in self.image.topics]:
            self.routing.remove(name)
        self.names.clear()
        for topic in self.image.topics.values():
            self._put(topic)
        for slot in before:
            (moved.changed if slot in self.names else moved.removed).append(slot)

    def _may_lead(self, row: Partition) -> bool:
        """Whether requests for the leader may go to this broker's worker."""
        return self._broker_id is None or row.leader in (self._broker_id, NO_LEADER)

    def _put(self, topic: Topic) -> None:
        slots = [row.slot for row in topic.partitions]
        owners = [row.owner if self._may_lead(row) else NO_OWNER for row in topic.partitions]
        self.routing.remove(topic.name)
        replicas = [row.replicas for row in topic.partitions]
        internal = is_internal(topic.name)
        self.routing.put(TopicRoute(topic.name, topic.id, slots, owners, replicas=replicas, is_internal=internal))
        for row in topic.partitions:
            if row.slot >= 0:
                self.names[row.slot] = (topic.name, row.index)
