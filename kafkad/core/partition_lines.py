"""Log lines about events of partitions.

Ten thousand partitions may change at once: partitions with the same event and cause share a line, which names the first
few and counts the others.
"""

from enum import IntEnum
from typing import NamedTuple

NAMED = 3


class Level(IntEnum):
    """The level numbers of `logging`."""

    INFO = 20
    WARNING = 30
    ERROR = 40


class PartitionEvent(NamedTuple):
    """A log line has `summary`, the partitions, then the cause and the remedy."""

    level: Level
    summary: str
    cause: str


class PartitionLine(NamedTuple):
    level: Level
    text: str


class _Batch:
    __slots__ = ("count", "named")

    def __init__(self) -> None:
        self.named: list[str] = []
        self.count = 0


class PartitionLines:
    """The events since the last `take`."""

    __slots__ = ("_batches", "_noted")

    def __init__(self) -> None:
        self._noted: list[PartitionLine] = []
        self._batches: dict[PartitionEvent, _Batch] = {}

    def __len__(self) -> int:
        return len(self._noted) + len(self._batches)

    def note(self, text: str) -> None:
        """Add a line about no partition."""
        self._noted.append(PartitionLine(Level.INFO, text))

    def add(self, event: PartitionEvent, subject: str) -> None:
        """`subject` is the partition with its values, such as `orders-3 from [1,2,3] to [1,2]`."""
        batch = self._batches.setdefault(event, _Batch())
        if batch.count < NAMED:
            batch.named.append(subject)
        batch.count += 1

    def take(self) -> list[PartitionLine]:
        """The lines; empties the batches."""
        noted, self._noted = self._noted, []
        batches, self._batches = self._batches, {}
        return noted + [
            PartitionLine(event.level, f"{event.summary} {_subjects(batch)}: {event.cause}")
            for event, batch in batches.items()
        ]


def _subjects(batch: _Batch) -> str:
    more = batch.count - len(batch.named)
    return ", ".join(batch.named) + (f" and {more} more partitions" if more else "")


def shown(brokers: tuple[int, ...]) -> str:
    """Replicas in the format of Kafka's tools."""
    return f"[{','.join(str(broker) for broker in brokers)}]"
