"""How are leader epochs, producer state and the sizes of transaction indexes stored on disk?

The owner's loop syncs a file only if it replaces entries that recovery could not rebuild. A lost first epoch and a
lost snapshot are rebuilt from the batches after the recovery point, which advances only after both were synced. A torn
file is detected and ignored.
"""

from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress

from kafkad.core.log.epochs import CorruptCheckpoint, EpochEntry, LeaderEpochCache
from kafkad.core.log.producers.entry import ProducerEntry
from kafkad.core.log.producers.producer_state import ProducerStates
from kafkad.core.log.producers.snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot
from kafkad.core.log.segments.layout import ABORTED_COUNTS, LEADER_EPOCHS, PRODUCER_SNAPSHOT, file_name, parse_file_name
from kafkad.core.log.segments.log_segments import Segments
from kafkad.core.ports import LogFile, NoSpaceLeft, SegmentStore

_VERSION = "0"
_MAX_DIGITS = 19
"""Digits of an offset."""


def write_epochs(store: SegmentStore, epochs: LeaderEpochCache, *, is_first: bool) -> LogFile | None:
    """Write `leader-epoch-checkpoint`, synced. The first one of a log is not synced, but returned open."""
    content = epochs.to_text().encode()
    if is_first:
        file = store.open(LEADER_EPOCHS, create=True)
        file.truncate(0)
        file.write_at((content,), 0)
        return file
    store.replace(LEADER_EPOCHS, content)
    return None


def read_epochs(store: SegmentStore, sizes: Mapping[str, int]) -> list[EpochEntry] | None:
    """The epochs on disk; None if the file is missing, empty or torn."""
    if not sizes.get(LEADER_EPOCHS):
        return None
    try:
        return LeaderEpochCache.from_text(store.read(LEADER_EPOCHS).decode(errors="replace")).entries
    except CorruptCheckpoint:
        return None


def write_producers(store: SegmentStore, producers: ProducerStates, offset: int) -> LogFile:
    """Write the producer snapshot of `offset`; return its file, open and not synced."""
    file = store.open(file_name(offset, PRODUCER_SNAPSHOT), create=True)
    file.truncate(0)
    file.write_at((encode_snapshot(producers.active()),), 0)
    return file


def correct_producers(store: SegmentStore, producers: ProducerStates, offset: int) -> None:
    """Replace the snapshot of `offset` if it differs from `producers`, synced."""
    name = file_name(offset, PRODUCER_SNAPSHOT)
    content = encode_snapshot(producers.active())
    try:
        if store.read(name) == content:
            return
    except FileNotFoundError:
        pass
    store.replace(name, content)


def snapshot_offsets(names: Collection[str]) -> list[int]:
    """The offsets of all snapshots, ascending."""
    parsed = (parse_file_name(name) for name in names if name.endswith(PRODUCER_SNAPSHOT))
    return sorted(name.base_offset for name in parsed if name is not None and not name.suffix)


def read_producers(store: SegmentStore, offset: int) -> list[ProducerEntry] | None:
    """The producers in the snapshot of `offset`; None if it is missing or damaged (then it is removed)."""
    name = file_name(offset, PRODUCER_SNAPSHOT)
    try:
        return decode_snapshot(store.read(name))
    except FileNotFoundError:
        return None
    except CorruptSnapshot:
        store.unlink(name)
        return None


def write_aborted_counts(store: SegmentStore, segments: Segments) -> LogFile | None:
    """Write the number of entries of each `.txnindex`; return the file, open and not synced. None if the file is up to
    date, or the disk has no space.
    """
    counts = {segment.base_offset: segment.aborted.count for segment in segments if segment.aborted.count}
    if counts == segments.stored_aborted_counts:
        return None
    lines = [_VERSION, str(len(counts)), *(f"{base} {count}" for base, count in counts.items())]
    content = "\n".join([*lines, ""]).encode()
    with suppress(NoSpaceLeft), ExitStack() as unless_written:
        file = store.open(ABORTED_COUNTS, create=True)
        unless_written.callback(file.close)
        # Truncated only after the write: without space the old content remains.
        file.write_at((content,), 0)
        file.truncate(len(content))
        unless_written.pop_all()
        segments.stored_aborted_counts = counts
        return file
    return None


def store_aborted_counts(store: SegmentStore, segments: Segments) -> None:
    """The same without a sync: outdated counts only make the next start read batches."""
    file = write_aborted_counts(store, segments)
    if file is not None:
        file.close()


def read_aborted_counts(store: SegmentStore, sizes: Mapping[str, int]) -> dict[int, int]:
    """The stored counts, by base offset; empty if the file is missing or torn."""
    if not sizes.get(ABORTED_COUNTS):
        return {}
    fields = store.read(ABORTED_COUNTS).split()
    if not all(field.isdigit() and len(field) <= _MAX_DIGITS for field in fields) or len(fields) < 2:
        return {}
    version, expected, *numbers = map(int, fields)
    if version != int(_VERSION) or len(numbers) != 2 * expected:
        return {}
    return dict(zip(numbers[::2], numbers[1::2], strict=True))
