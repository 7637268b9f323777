"""Divide ranges into pieces, so that every core has work and no file or task is too large."""

from collections.abc import Mapping, Sequence

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.log_dirs import describe_log_dirs
from kafkad_lakehouse.export.ranges import Bounds, OffsetRange, split_at, split_evenly
from kafkad_lakehouse.export.reading.segments import OffsetMissing, SegmentReader
from kafkad_lakehouse.export.reading.source import Source

_LARGEST_BYTES = 128 << 20
SMALLEST_BYTES = 8 << 20
_ASSUMED_BYTES = 1_000
"""The assumed size of a record if the broker does not describe its log directories."""


def divide(source: Source, ranges: Sequence[OffsetRange], sizes: Sequence[int], tasks: int) -> list[OffsetRange]:
    """Divide ranges of these sizes into about `tasks` pieces of similar size.

    There are more pieces if they would be too large, and fewer if too small. Files are divided at batches in their
    indexes. Raises `ExportFailed`.
    """
    max_bytes = _max_bytes(sizes, tasks)
    found: list[OffsetRange] = []
    for whole, size in zip(ranges, sizes, strict=True):
        directory = source.directories.get(whole.partition)
        if directory is not None:
            found += split_at(whole, SegmentReader(directory).cuts(whole.start, whole.end, max_bytes))
        else:
            found += split_evenly(whole, -(-size // max_bytes))
    return found


def group_pieces(
    ranges: Sequence[OffsetRange], sizes: Sequence[int], pieces: Sequence[OffsetRange], tasks: int
) -> list[tuple[OffsetRange, ...]]:
    """Group the pieces of `ranges` into about `tasks` tasks; a task may have several small pieces."""
    max_bytes = _max_bytes(sizes, tasks)
    max_pieces = -(-len(pieces) // max(tasks, 1))
    per_offset = {each.partition: size / (each.end - each.start) for each, size in zip(ranges, sizes, strict=True)}
    found: list[tuple[OffsetRange, ...]] = []
    task: list[OffsetRange] = []
    task_bytes = 0.0
    for piece in pieces:
        size = per_offset[piece.partition] * (piece.end - piece.start)
        if task and (len(task) == max_pieces or task_bytes + size > max_bytes):
            found.append(tuple(task))
            task, task_bytes = [], 0.0
        task.append(piece)
        task_bytes += size
    if task:
        found.append(tuple(task))
    return found


def _max_bytes(sizes: Sequence[int], tasks: int) -> int:
    return min(max(sum(sizes) // max(tasks, 1), SMALLEST_BYTES), _LARGEST_BYTES)


def sizes_of(source: Source, ranges: Sequence[OffsetRange], bytes_per_offset: Mapping[int, float]) -> list[int]:
    """The approximate size of each range in the log, in bytes."""
    return [_size(source, whole, bytes_per_offset) for whole in ranges]


def bytes_per_offset(client: BrokerClient, topic: str, bounds: Mapping[int, Bounds]) -> dict[int, float]:
    """The average by partition, from DescribeLogDirs; empty if the request is rejected. Raises `BrokerCallFailed`."""
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
        except OffsetMissing:
            # The broker may have the remaining records.
            return 0
    return int((whole.end - whole.start) * average.get(whole.partition, _ASSUMED_BYTES))
