"""Which offsets did each leader epoch write?

The leader-epoch cache: epochs and their start offsets, both strictly increasing. The end offset of an epoch is where a
follower's log may diverge from the leader's. The text of `leader-epoch-checkpoint` is made and parsed here; the owner
writes the file.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from kafkad.core.types import LARGEST_OFFSET

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1
_VERSION = 0
_LARGEST_EPOCH = 2**31 - 1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class CorruptCheckpoint(Exception):
    """The text is not a `leader-epoch-checkpoint` file."""


class LeaderEpochCache:
    """The leader epochs of one log. Methods that change them return whether the checkpoint must be written."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[EpochEntry | tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> list[EpochEntry]:
        return [EpochEntry(*pair) for pair in zip(self._epochs, self._starts, strict=True)]

    @property
    def latest_epoch(self) -> int | None:
        return self._epochs[-1] if self._epochs else None

    @property
    def latest(self) -> EpochEntry | None:
        return EpochEntry(self._epochs[-1], self._starts[-1]) if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that `epoch` starts at `start_offset`; drop entries that contradict it. False if unchanged."""
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == epoch and start_offset >= starts[-1]:
            return False
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} from offset {start_offset}: neither may be negative")
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(the largest epoch not above `epoch`, its end offset); (-1, -1) if undefined.

        The latest epoch ends at the log end. For an epoch older than all entries: the epoch itself, with the start
        offset of the first entry; its records were deleted.
        """
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == 0:
            return epoch, self._starts[0]
        return self._epochs[higher - 1], self._starts[higher]

    def end_offset_as_leader(self, epoch: int, log_end_offset: int, leader_epoch: int) -> tuple[int, int]:
        """As `end_offset_for` on the leader of `leader_epoch`: this epoch starts at the log end while it has no record.

        A log gets the entry of an epoch with the first record of the epoch.
        """
        if leader_epoch <= (UNDEFINED_EPOCH if self.latest_epoch is None else self.latest_epoch):
            return self.end_offset_for(epoch, log_end_offset)
        led = LeaderEpochCache(self.entries)
        led.assign(leader_epoch, log_end_offset)
        return led.end_offset_for(epoch, log_end_offset)

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop the epochs that start at `end_offset`, the new end of the log, or later."""
        if end_offset < 0:
            return False
        keep = bisect_left(self._starts, end_offset)
        changed = keep < len(self._starts)
        del self._epochs[keep:], self._starts[keep:]
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """The log now starts at `start_offset`: move the start of its epoch there, drop older epochs."""
        passed = bisect_right(self._starts, start_offset)
        if passed == 0 or (passed == 1 and self._starts[0] == start_offset):
            return False
        del self._epochs[: passed - 1], self._starts[: passed - 1]
        self._starts[0] = start_offset
        return True

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()

    def to_text(self) -> str:
        """The content of `leader-epoch-checkpoint`: version, count, one line for each entry."""
        lines = [f"{epoch} {start}" for epoch, start in zip(self._epochs, self._starts, strict=True)]
        return "\n".join([str(_VERSION), str(len(lines)), *lines, ""])

    @classmethod
    def from_text(cls, text: str) -> "LeaderEpochCache":
        """The cache that `to_text` (or Kafka) wrote; raises `CorruptCheckpoint`."""
        return cls(parse_checkpoint(text))


def parse_checkpoint(text: str) -> list[EpochEntry]:
    """The entries in the order of the file; raises `CorruptCheckpoint`.

    Apache Kafka creates the file empty and writes it with the first batch.
    """
    if not text:
        return []
    lines = text.splitlines()
    try:
        version, count = int(lines[0]), int(lines[1])
    except (IndexError, ValueError):
        raise CorruptCheckpoint(f"expected a version and a count, found {lines[:2]}") from None
    if version != _VERSION:
        raise CorruptCheckpoint(f"expected version {_VERSION}, found {version}")
    if count != len(lines) - 2:
        raise CorruptCheckpoint(f"expected {count} entries, found {len(lines) - 2}")
    return [_parse_entry(line) for line in lines[2:]]


def _parse_entry(line: str) -> EpochEntry:
    try:
        epoch, start_offset = map(int, line.split())
    except ValueError:
        raise CorruptCheckpoint(f"expected «epoch offset», found {line!r}") from None
    if not (0 <= epoch <= _LARGEST_EPOCH and 0 <= start_offset <= LARGEST_OFFSET):
        raise CorruptCheckpoint(f"expected an epoch of 32 bits and an offset of 64, found {line!r}")
    return EpochEntry(epoch, start_offset)
