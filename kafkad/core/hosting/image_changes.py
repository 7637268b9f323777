"""Collects the changes of one request to the image, and turns them into few deltas per topic.

Partitions may come in any order and with gaps: a partition in a gap has a row without leader and replicas.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from msgspec import structs

from kafkad.core.controller import deltas
from kafkad.core.controller.image import NO_LEADER, NO_LOG_DIR, NO_OWNER, NO_SLOT, MetadataImage, Partition, Topic
from kafkad.core.types import NO_LEADER_EPOCH


class _Changed:
    """A topic with its changed rows."""

    __slots__ = ("before", "configs", "id", "rows")

    def __init__(self, before: Topic | None, topic_id: UUID, configs: Mapping[str, str]) -> None:
        self.before = before
        self.id = topic_id
        self.configs = configs
        self.rows: dict[int, Partition] = {}


class ImageChanges:
    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._first: list[deltas.Change] = []
        """Published before the rows of topics: deletions, and changes without a topic."""
        self._removals: list[deltas.Change] = []
        self._last: list[deltas.Change] = []
        self._topics: dict[str, _Changed] = {}
        self._deleted: set[str] = set()
        self._removed: dict[str, dict[int, Partition]] = {}

    def add(self, change: deltas.Change) -> None:
        self._first.append(change)

    def topic_id(self, name: str) -> UUID | None:
        changed = self._topics.get(name)
        if changed is not None:
            return changed.id
        topic = self._topic(name)
        return None if topic is None else topic.id

    def row(self, name: str, index: int) -> Partition | None:
        removed = self._removed.get(name, {}).get(index)
        changed = self._topics.get(name)
        if changed is not None and index in changed.rows:
            return changed.rows[index]
        if removed is not None:
            return removed
        topic = self._topic(name)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def is_hosted(self, name: str) -> bool:
        """Whether this broker has a replica of the topic."""
        topic = self._topic(name)
        count = len(topic.partitions) if topic is not None else 0
        changed = self._topics.get(name)
        indexes = {*range(count), *(changed.rows if changed is not None else ())}
        rows = (self.row(name, index) for index in indexes)
        return any(row is not None and row.slot != NO_SLOT for row in rows)

    def put(self, name: str, topic_id: UUID, row: Partition, configs: Mapping[str, str] | None = None) -> None:
        """The partition is now `row`; a new topic gets `topic_id` and `configs`."""
        if self.row(name, row.index) == row:
            return
        changed = self._topics.get(name)
        if changed is None:
            topic = self._topic(name)
            kept = (topic.id, topic.configs) if topic is not None else (topic_id, configs or {})
            changed = self._topics[name] = _Changed(topic, *kept)
        changed.rows[row.index] = row

    def remove_replicas(self, name: str, rows: Sequence[Partition]) -> None:
        """This broker removes its replicas of these partitions, which the image has."""
        removed = tuple(
            structs.replace(row, slot=NO_SLOT, owner=NO_OWNER, log_dir=NO_LOG_DIR, future_dir=NO_LOG_DIR)
            for row in rows
        )
        self._removed.setdefault(name, {}).update({row.index: row for row in removed})
        changed = self._topics.get(name)
        for row in removed:
            if changed is not None:
                changed.rows.pop(row.index, None)
        topic = self._image.topics[name]
        slots = tuple(row.slot for row in rows)
        self._removals.append(deltas.ReplicasRemoved(name, topic.id, removed, slots))

    def delete(self, name: str) -> None:
        """The topic is deleted; this broker has no replica of it any more."""
        topic = self._topic(name)
        self._topics.pop(name, None)
        if topic is None:
            return
        self._deleted.add(name)
        deletion = deltas.TopicDeleted(name, topic.id, ())
        if name in self._removed:
            self._last.append(deletion)
        else:
            self._first.append(deletion)

    def deltas(self) -> Iterator[deltas.Change]:
        yield from self._first
        yield from self._removals
        for name, changed in self._topics.items():
            yield from _deltas_of(name, changed)
        yield from self._last

    def _topic(self, name: str) -> Topic | None:
        return None if name in self._deleted else self._image.topics.get(name)


def _deltas_of(name: str, changed: _Changed) -> Iterator[deltas.Change]:
    if not changed.rows:
        return
    before = () if changed.before is None else changed.before.partitions
    count = max(len(before), max(changed.rows) + 1)
    added = tuple(changed.rows.get(index) or _placeholder(index) for index in range(len(before), count))
    if changed.before is None:
        yield deltas.TopicCreated(Topic(name=name, id=changed.id, partitions=added, configs=dict(changed.configs)))
        return
    if added:
        yield deltas.PartitionsAdded(name, added)
    moved = tuple(_in_order(row for index, row in changed.rows.items() if index < len(before)))
    if moved:
        yield deltas.PartitionsChanged(name, moved)


def _in_order(rows: Iterable[Partition]) -> list[Partition]:
    return sorted(rows, key=lambda row: row.index)


def _placeholder(index: int) -> Partition:
    """The row of a partition without a received state."""
    return Partition(
        index=index,
        slot=NO_SLOT,
        owner=NO_OWNER,
        log_dir=NO_LOG_DIR,
        leader=NO_LEADER,
        leader_epoch=NO_LEADER_EPOCH,
        partition_epoch=-1,
        replicas=(),
        isr=(),
    )
