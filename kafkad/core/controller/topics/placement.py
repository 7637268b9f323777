"""The place of a partition on this broker: slot of the partition table, owning worker, log directory.

A freed slot is reused only when every process has applied the metadata version that removed its partition (the grace
period); until then a process may still use the slot for the old partition.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace

from kafkad.core.controller.deltas import PartitionsChanged
from kafkad.core.controller.image import NO_LOG_DIR, NO_OWNER, NO_SLOT, MetadataImage, Partition
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.types import TopicPartition

PARTITION_SLOTS = 1_048_575
"""All slots of the partition table but the last, which carries state from one controller process to the next."""
MAX_PREFERRED = 10_000
"""The limit of preferred log directories for partitions that do not exist yet; beyond it the oldest are removed."""


@dataclass(frozen=True, slots=True)
class Place:
    slot: int
    owner: int
    log_dir: int


NO_PLACE = Place(NO_SLOT, NO_OWNER, NO_LOG_DIR)
"""The place of a partition without a replica on this broker."""


class SlotTable:
    """Allocates slot numbers: freed slots before new ones."""

    def __init__(self, used: Iterable[int] = (), *, ever_used: int = 0, size: int = PARTITION_SLOTS) -> None:
        """`ever_used`: one more than the highest slot that a process may still use for an earlier partition."""
        in_use = set(used) - {NO_SLOT}
        self._size = size
        self._next = max(ever_used, max(in_use, default=-1) + 1)
        self._free: deque[int] = deque()
        # The versions in which an earlier controller freed slots are unknown: they wait for one more version.
        self._resting: deque[tuple[int, tuple[int, ...]]] = deque()
        self._inherited = tuple(slot for slot in range(self._next) if slot not in in_use)

    def free_inherited(self, version: int) -> None:
        """Slots that an earlier controller left unused are free after `version`, the first published version, is
        acknowledged."""
        self.free(self._inherited, version)
        self._inherited = ()

    @property
    def ever_used(self) -> int:
        return self._next

    def available(self) -> int:
        return len(self._free) + self._size - self._next

    def take(self, count: int) -> list[int]:
        """Allocate `count` slots; the caller has checked that they are available."""
        assert count <= self.available(), f"{count} slots taken, {self.available()} available"
        again = [self._free.popleft() for _ in range(min(count, len(self._free)))]
        new = range(self._next, self._next + count - len(again))
        self._next = new.stop
        return [*again, *new]

    def free(self, slots: Sequence[int], version: int) -> None:
        """The slots are free after `version` is acknowledged."""
        kept = tuple(slot for slot in slots if slot != NO_SLOT)
        if kept:
            self._resting.append((version, kept))

    def acknowledged(self, version: int) -> None:
        """Every live process has applied `version`."""
        while self._resting and self._resting[0][0] <= version:
            self._free.extend(self._resting.popleft()[1])


class Placement:
    """The slots, and the number of partitions of each worker and each online log directory.

    A partition that is being moved counts in both directories (LogManager.nextLogDirs).
    """

    def __init__(self, slots: SlotTable, workers: int, online_dirs: Iterable[int]) -> None:
        self._slots = slots
        self._loads = dict.fromkeys(range(workers), 0)
        self._directories = dict.fromkeys(online_dirs, 0)
        self.cordoned: frozenset[int] = frozenset()
        self._preferred: dict[TopicPartition, int] = {}

    @property
    def slots_ever_used(self) -> int:
        return self._slots.ever_used

    def require(self, count: int) -> None:
        """Raises KafkaError if there is no space for `count` more partitions; allocates nothing."""
        if count and not self._directories:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "Every log directory of this broker is offline.")
        if count and self.cordoned.issuperset(self._directories):
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Unable to replicate the partition 1 time(s): all log directories of this broker are cordoned.",
            )
        available = self._slots.available()
        if count > available:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"This broker has space for {available} more partition(s), {count} were requested.",
            )

    def has_slots(self, count: int) -> bool:
        return count <= self._slots.available()

    def has_space(self, count: int) -> bool:
        """Whether `take(count)` succeeds."""
        return self.has_slots(count) and not self.cordoned.issuperset(self._directories)

    def prefer(self, partition: TopicPartition, log_dir: int) -> None:
        """Remember the log directory in which to create a partition that does not exist yet."""
        self._preferred.pop(partition, None)
        self._preferred[partition] = log_dir
        if len(self._preferred) > MAX_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def count(self, image: MetadataImage, changes: Iterable[PartitionsChanged]) -> None:
        """Update the counts for rows of `image` with changed directories or moves."""
        for change in changes:
            rows = image.topics[change.name].partitions
            for after in change.partitions:
                self.moved(rows[after.index].log_dir, after.log_dir)
                self.moved(rows[after.index].future_dir, after.future_dir)

    def moved(self, source: int, target: int) -> None:
        """A partition counts in `target` instead of `source`."""
        for log_dir, change in ((source, -1), (target, 1)):
            if log_dir in self._directories:
                self._directories[log_dir] += change

    def take(self, count: int, names: Sequence[TopicPartition] = ()) -> list[Place]:
        """`count` places, each on the worker and in the directory with the fewest partitions. `names` are the
        partitions, for which directories may be preferred.
        """
        self.require(count)
        workers = [(load, worker) for worker, load in self._loads.items()]
        disks = [(load, log_dir) for log_dir, load in self._directories.items() if log_dir not in self.cordoned]
        heapify(workers)
        heapify(disks)
        places = []
        for slot in self._slots.take(count):
            owner, log_dir = workers[0][1], disks[0][1]
            heapreplace(workers, (workers[0][0] + 1, owner))
            heapreplace(disks, (disks[0][0] + 1, log_dir))
            places.append(Place(slot, owner, log_dir))
        self._loads = {worker: load for load, worker in workers}
        self._directories |= {log_dir: load for load, log_dir in disks}
        return self._as_preferred(places, names) if self._preferred else places

    def _as_preferred(self, places: list[Place], names: Sequence[TopicPartition]) -> list[Place]:
        for at, name in enumerate(names):
            log_dir = self._preferred.pop(name, None)
            if log_dir in self._directories:
                self.moved(places[at].log_dir, log_dir)
                places[at] = replace(places[at], log_dir=log_dir)
        return places

    def take_in(self, log_dir: int) -> Place:
        """Allocate a place for a partition with an existing directory."""
        (slot,) = self._slots.take(1)
        owner = min(self._loads, key=lambda worker: (self._loads[worker], worker))
        place = Place(slot, owner, log_dir)
        self.occupy(place)
        return place

    def occupy(self, place: Place) -> None:
        """Count a partition that has a place already."""
        if place.owner in self._loads:
            self._loads[place.owner] += 1
        if place.log_dir in self._directories:
            self._directories[place.log_dir] += 1

    def free(self, partitions: Sequence[Partition], version: int) -> None:
        for partition in partitions:
            if partition.owner in self._loads:
                self._loads[partition.owner] -= 1
            self.moved(partition.log_dir, NO_LOG_DIR)
            self.moved(partition.future_dir, NO_LOG_DIR)
        self._slots.free([partition.slot for partition in partitions], version)

    def free_inherited(self, version: int) -> None:
        self._slots.free_inherited(version)

    def acknowledged(self, version: int) -> None:
        self._slots.acknowledged(version)

    def cordon(self, log_dirs: frozenset[int]) -> None:
        """Only other log directories get new partitions from now on."""
        self.cordoned = log_dirs

    def directory_failed(self, log_dir: int) -> None:
        self._directories.pop(log_dir, None)
