"""The view for requests that are answered in the network process."""

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


class NotYet(Exception):
    """A partition's manifest is not here yet and has been asked for: run the handler again when it comes."""


class LogLookups(Protocol):
    """Looking into logs by time and by leader epoch."""

    def reader(self, slot: int, published: PartitionSlot) -> LogReader | None:
        """A reader over all segments; None: the owner has been asked, raise `NotYet`."""

    def outdated(self, slot: int, published: PartitionSlot) -> None:
        """Files of the manifest are missing: the owner is asked again, raise `NotYet`.

        Raises KafkaError when the owner has named the same files before.
        """

    def doubted(self, slot: int, published: PartitionSlot, error: WrongIndex) -> None:
        """An index contradicts the log: the owner is asked to compare them, raise `NotYet`.

        Raises KafkaError when the owner has found it right before: the log is damaged.
        """

    def unreadable(self, slot: int, published: PartitionSlot, error: Exception) -> KafkaError:
        """The code for a log that can't be read. Logs once which one it is, and why."""


class VolumeSpace(Protocol):
    """Asks the operating system for the free space."""

    def __call__(self, path: str) -> tuple[int, int] | None:
        """(total, usable) bytes of the volume that the directory is in; None when the directory is offline."""


def _unknown_space(path: str) -> tuple[int, int]:
    return -1, -1


@dataclass(slots=True, kw_only=True)
class BrokerView:
    """One mutable object for the process: the shell replaces the image when metadata arrives.

    `max_partitions_described` is max.request.partition.size.limit; `cleanup_policy` is log.cleanup.policy of
    this broker.
    """

    broker_id: int
    log_dirs: tuple[str, ...]
    slots: SlotReader
    logs: LogLookups
    image: MetadataImage
    routing: Routing
    volume_space: VolumeSpace = _unknown_space
    offline_dirs: Callable[[], Collection[int]] = frozenset
    """The log directories, by their place in log.dirs, that can't be used any more."""
    cordoned_dirs: Collection[int] = frozenset()
    """Those that get no new partitions."""
    max_partitions_described: int = 2000
    cleanup_policy: str = "delete"
    metadata_cache: MetadataCache = field(default_factory=MetadataCache)

    @property
    def controller_id(self) -> int:
        """The broker that clients send their changes to; a single broker is its own controller."""
        known = self.image.controller_id
        return self.broker_id if known == NO_CONTROLLER else known
