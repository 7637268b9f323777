"""The state that a restarted controller process inherits from the slots of the workers.

A partition keeps its slot and owner through any number of controller incarnations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from kafkad.adapters.shared_memory.controller_handover import ControllerHandover
from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.core.controller.image import NO_LEADER, NO_LOG_DIR, MetadataImage, Partition, Topic
from kafkad.core.controller.startup.startup import SharedMemoryState
from kafkad.core.partition_slot import STATE_DELETING, STATE_FREE, PartitionSlot

VERSIONS_PER_INCARNATION_BITS = 32
"""Versions of an incarnation are always larger than those of previous ones."""


@dataclass(frozen=True, slots=True)
class FailoverState:
    """`unreferenced`: published slots of no topic in the store; their owners will free them."""

    inherited: SharedMemoryState
    unreferenced: tuple[int, ...]


class UnreferencedSlots:
    """Published slots of no topic in the store. They are reused only after their owners, or the next incarnations of
    these, have freed them: to free a slot is a write, which would otherwise change the next partition in it.
    """

    def __init__(self, table: PartitionTable, slots: Iterable[int]) -> None:
        self._table = table
        self._slots = list(slots)

    def are_freed(self) -> bool:
        while self._slots and self._table.read(self._slots[-1]).state == STATE_FREE:
            self._slots.pop()
        return not self._slots


def read_failover_state(
    table: PartitionTable, handover: ControllerHandover, names: Mapping[UUID, str], incarnation: int
) -> FailoverState:
    """The partitions as their owners published them. `names` are the topics of the store by their ids, without those
    whose deletion is recorded.
    """
    partitions: dict[UUID, list[Partition]] = {}
    unreferenced = []
    for slot in range(handover.slots_ever_used):
        published = table.read(slot)
        if published.state == STATE_FREE:
            continue
        topic_id = UUID(bytes=published.topic_id)
        if published.state == STATE_DELETING or topic_id not in names:
            unreferenced.append(slot)
        else:
            partitions.setdefault(topic_id, []).append(_partition(slot, published, handover.offline))
    image = MetadataImage(
        version=incarnation << VERSIONS_PER_INCARNATION_BITS,
        topics={names[topic_id]: _topic(names[topic_id], topic_id, rows) for topic_id, rows in partitions.items()},
    )
    return FailoverState(SharedMemoryState(image=image, slots_ever_used=handover.slots_ever_used), tuple(unreferenced))


def _partition(slot: int, published: PartitionSlot, offline: frozenset[int]) -> Partition:
    """Only slot, owner and directories are used; the store has the leaders."""
    return Partition(
        index=published.partition,
        slot=slot,
        owner=published.owner,
        log_dir=NO_LOG_DIR if published.log_dir in offline else published.log_dir,
        leader=NO_LEADER,
        leader_epoch=published.leader_epoch,
        partition_epoch=0,
        replicas=(),
        isr=(),
        future_dir=published.future_dir,
    )


def _topic(name: str, topic_id: UUID, rows: Iterable[Partition]) -> Topic:
    return Topic(name=name, id=topic_id, partitions=tuple(rows), configs={})
