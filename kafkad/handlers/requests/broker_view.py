"""The state of the broker that the network process uses to handle requests."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from kafkad.core.controller.image import NO_CONTROLLER, MetadataImage
from kafkad.core.errors import KafkaError
from kafkad.core.log.reading.log_reader import LogReader
from kafkad.core.log.segments.indexed_batches import WrongIndex
from kafkad.core.partition_slot import PartitionSlot, SlotReader
from kafkad.handlers.partitions.partition_routes import Routing
from kafkad.handlers.requests.metadata_cache import MetadataCache


class ManifestPending(Exception):
    """The manifest of a partition has been requested from its owner: run the handler again when it arrives."""


class LogLookups(Protocol):
    """Searches in logs by time and by leader epoch."""

    def reader(self, slot: int, published: PartitionSlot) -> LogReader | None:
        """A reader over all segments. None: the manifest has been requested, raise `ManifestPending`."""

    def refresh_manifest(self, slot: int, published: PartitionSlot) -> None:
        """Request the manifest again because its files are missing; then raise `ManifestPending`.

        Raises KafkaError if the last two manifests name the same files.
        """

    def recheck_index(self, slot: int, published: PartitionSlot, error: WrongIndex) -> None:
        """Request a check of an index that contradicts the log; then raise `ManifestPending`.

        Raises KafkaError if the owner has already found the index correct: the log is damaged.
        """

    def unreadable(self, slot: int, published: PartitionSlot, error: Exception) -> KafkaError:
        """The error code of a log that can't be read. Logs the partition and the cause once."""


class VolumeSpace(Protocol):
    """Reads the free space from the operating system."""

    def __call__(self, path: str) -> tuple[int, int] | None:
        """(total, usable) bytes of the directory's volume; None if the directory is offline."""


def _unknown_space(path: str) -> tuple[int, int]:
    return -1, -1


@dataclass(slots=True, kw_only=True)
class BrokerView:
    """One mutable object per process: the shell replaces the image when metadata arrives.

    `max_partitions_described` is max.request.partition.size.limit; `cleanup_policy` is log.cleanup.policy.
    """

    broker_id: int
    log_dirs: tuple[str, ...]
    slots: SlotReader
    logs: LogLookups
    image: MetadataImage
    routing: Routing
    volume_space: VolumeSpace = _unknown_space
    offline_dirs: Callable[[], Collection[int]] = frozenset
    """The offline log directories, by their index in log.dirs."""
    cordoned_dirs: Collection[int] = frozenset()
    """The log directories that get no new partitions."""
    max_partitions_described: int = 2000
    cleanup_policy: str = "delete"
    metadata_cache: MetadataCache = field(default_factory=MetadataCache)

    @property
    def controller_id(self) -> int:
        """The broker to which clients send changes; a single broker is its own controller."""
        controller_id = self.image.controller_id
        return self.broker_id if controller_id == NO_CONTROLLER else controller_id
