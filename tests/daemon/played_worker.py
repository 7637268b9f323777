"""A worker as the controller sees it: it makes directories, publishes slots, says what it has applied."""

import shutil
from pathlib import Path
from uuid import UUID, uuid4

from kafkad.adapters.files.log_directory import write_partition_metadata
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.controller.deltas import (
    MetadataDelta,
    PartitionsAdded,
    ReplicasRemoved,
    Snapshot,
    TopicCreated,
    apply,
    decode,
)
from kafkad.core.controller.image import MetadataImage, Partition
from kafkad.core.partition_slot import STATE_DELETING, STATE_ONLINE, PartitionSlot
from kafkad.wire.processes.controller_messages import (
    DELTA,
    Applied,
    ControllerMessage,
    DirectoriesRemoved,
    pack_message,
    unpack_message,
)
from tests.daemon.stage import Stage

CONTROLLER = ProcessKey("controller", 0)


class PlayedProcess:
    """Follows the metadata; `heard` are the messages that were none."""

    def __init__(self, stage: Stage, key: ProcessKey) -> None:
        self.key = key
        self.stage = stage
        self.image = MetadataImage()
        self.heard: list[ControllerMessage] = []
        self.snapshots = 0
        self.applies = True
        """Whether it says that it has applied the metadata."""
        stage.play(key)

    def act(self) -> None:
        """Take in everything that has come."""
        actor = self.stage.actors[self.key]
        frames, actor.frames = actor.frames, []
        for frame in frames:
            if frame[0] == DELTA:
                self._take(decode(frame[1:]))
            else:
                self.heard.append(unpack_message(frame))

    def _take(self, delta: MetadataDelta) -> None:
        image = apply(self.image, delta)
        if image is self.image:
            return
        self.snapshots += any(isinstance(change, Snapshot) for change in delta.changes)
        self.image = image
        self.make_so(delta)
        if not self.applies:
            return
        self.stage.shared.registry.set_applied_version(self.key, delta.version)
        self.tell(Applied(delta.version))

    def make_so(self, delta: MetadataDelta) -> None:
        """A network process has nothing to make."""

    def tell(self, message: ControllerMessage) -> None:
        self.stage.actors[self.key].send(CONTROLLER, pack_message(message))


class PlayedWorker(PlayedProcess):
    """`removes`: whether it reports at once that a deleted partition is gone."""

    def __init__(self, stage: Stage, key: ProcessKey, *, removes: bool = True) -> None:
        self.removes = removes
        self.owned: dict[int, tuple[UUID, Path]] = {}
        super().__init__(stage, key)

    def make_so(self, delta: MetadataDelta) -> None:
        for change in delta.changes:
            match change:
                case TopicCreated(topic):
                    self._own(topic.name, topic.id, topic.partitions)
                case PartitionsAdded(name, partitions):
                    self._own(name, self.image.topics[name].id, partitions)
                case ReplicasRemoved(_, topic_id, _, slots):
                    self._let_go(topic_id, slots)
                case Snapshot():
                    self._follow_snapshot()
                case _:
                    continue

    def _follow_snapshot(self) -> None:
        wanted = {
            (row.slot, topic.id)
            for topic in self.image.topics.values()
            for row in topic.partitions
            if row.owner == self.key.index
        }
        for slot, (topic_id, _) in list(self.owned.items()):
            if (slot, topic_id) not in wanted:
                self._let_go(topic_id, (slot,))
        for topic in self.image.topics.values():
            self._own(topic.name, topic.id, topic.partitions)

    def _own(self, name: str, topic_id: UUID, partitions: tuple[Partition, ...]) -> None:
        for row in partitions:
            if row.owner != self.key.index or row.slot in self.owned or row.log_dir < 0:
                continue
            path = Path(self.stage.config.log_dirs.log_dirs[row.log_dir]) / f"{name}-{row.index}"
            path.mkdir(exist_ok=True)
            write_partition_metadata(path, topic_id)
            self.owned[row.slot] = (topic_id, path)
            self.publish(row.slot, row.index, topic_id, log_dir=row.log_dir)

    def publish(
        self, slot: int, partition: int, topic_id: UUID, *, log_dir: int = 0, start: int = 0, end: int = 0
    ) -> None:
        self.stage.shared.table.publish(
            slot,
            PartitionSlot(
                topic_id=topic_id.bytes,
                partition=partition,
                owner=self.key.index,
                log_dir=log_dir,
                state=STATE_ONLINE,
                log_start=start,
                hw_offset=end,
                leo_offset=end,
                recovery_point=end,
                segment_count=1,
            ),
        )

    def _let_go(self, topic_id: UUID, slots: tuple[int, ...]) -> None:
        mine = [slot for slot in slots if self.owned.get(slot, (None, None))[0] == topic_id]
        for slot in mine:
            path = self.owned.pop(slot)[1]
            if self.removes:
                path.rename(path.with_name(f"{path.name}.{uuid4().hex}-delete"))
                self.stage.shared.table.clear(slot)
            else:
                before = self.stage.shared.table.read(slot)
                self.stage.shared.table.publish(slot, before._replace(state=STATE_DELETING))
        if mine and self.removes:
            self.tell(DirectoriesRemoved(topic_id.bytes, mine))


def wipe(path: Path) -> None:
    """A disk that was exchanged for an empty one."""
    shutil.rmtree(path)
    path.mkdir()
