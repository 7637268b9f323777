"""Into which pieces is a range divided? So that every core has work, and no file or task becomes too large."""

from collections.abc import Mapping, Sequence

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.log_dirs import describe_log_dirs
from kafkad.export.ranges import Bounds, OffsetRange, split_at, split_evenly
from kafkad.export.reading.segments import OffsetGone, SegmentReader
from kafkad.export.reading.source import Source

_LARGEST_BYTES = 128 << 20
SMALLEST_BYTES = 8 << 20
_GUESSED_BYTES = 1_000
"""Of a record, where nobody knows."""


def divide(source: Source, ranges: Sequence[OffsetRange], sizes: Sequence[int], tasks: int) -> list[OffsetRange]:
    """Ranges of these sizes as about `tasks` pieces of similar size.

    They are more where they would be too large, and fewer where too small. Files are cut at batches that their indexes
    name. Raises `ExportFailed`.
    """
    most = _most_bytes(sizes, tasks)
    found: list[OffsetRange] = []
    for whole, size in zip(ranges, sizes, strict=True):
        directory = source.directories.get(whole.partition)
        if directory is not None:
            found += split_at(whole, SegmentReader(directory).cuts(whole.start, whole.end, most))
        else:
            found += split_evenly(whole, -(-size // most))
    return found


def gathered(
    ranges: Sequence[OffsetRange], sizes: Sequence[int], pieces: Sequence[OffsetRange], tasks: int
) -> list[tuple[OffsetRange, ...]]:
    """The pieces of `ranges` as those of about `tasks` tasks: of many small partitions a task has several."""
    most = _most_bytes(sizes, tasks)
    most_pieces = -(-len(pieces) // max(tasks, 1))
    per_offset = {each.partition: size / (each.end - each.start) for each, size in zip(ranges, sizes, strict=True)}
    found: list[tuple[OffsetRange, ...]] = []
    task: list[OffsetRange] = []
    task_bytes = 0.0
    for piece in pieces:
        size = per_offset[piece.partition] * (piece.end - piece.start)
        if task and (len(task) == most_pieces or task_bytes + size > most):
            found.append(tuple(task))
            task, task_bytes = [], 0.0
        task.append(piece)
        task_bytes += size
    if task:
        found.append(tuple(task))
    return found


def _most_bytes(sizes: Sequence[int], tasks: int) -> int:
    return min(max(sum(sizes) // max(tasks, 1), SMALLEST_BYTES), _LARGEST_BYTES)


def sizes_of(source: Source, ranges: Sequence[OffsetRange], bytes_per_offset: Mapping[int, float]) -> list[int]:
    """About how many bytes of the log each range is."""
    return [_size(source, whole, bytes_per_offset) for whole in ranges]


def bytes_per_offset(client: BrokerClient, topic: str, bounds: Mapping[int, Bounds]) -> dict[int, float]:
    """On average, as the brokers say; nothing where they don't tell us. Raises `BrokerCallFailed`."""
    try:
        directories = describe_log_dirs(client, {topic: list(bounds)})
    except BrokerCallFailed as failed:
        if failed.code is None:
            raise
        return {}
    found = {}
    for replica in (each for directory in directories for each in directory.replicas if not each.is_future):
        earliest, end = bounds[replica.partition]
        if end > earliest:
            found[replica.partition] = replica.size_bytes / (end - earliest)
    return found


def _size(source: Source, whole: OffsetRange, average: Mapping[int, float]) -> int:
    directory = source.directories.get(whole.partition)
    if directory is not None:
        try:
            return SegmentReader(directory).size(whole.start, whole.end)
        except OffsetGone:
            # The broker has the rest, or nobody.
            return 0
    return int((whole.end - whole.start) * average.get(whole.partition, _GUESSED_BYTES))
