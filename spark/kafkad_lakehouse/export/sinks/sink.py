"""The interface of all table formats."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

import pyarrow as pa

from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.request import KEEP_ALL, KEEP_LATEST
from kafkad_lakehouse.export.schema import RECORDS
from kafkad_lakehouse.export.writing import WrittenFile


class TableState(NamedTuple):
    """The state of a table: its topic and end offsets. `topic_id` is None for a table that does not exist yet."""

    cluster_id: str | None
    topic_id: UUID | None
    topic: str | None
    offsets: Mapping[int, int]
    """End offset by partition: the first offset that the table does not have."""
    version: int
    """An opaque version; a commit is conditional on it."""
    columns: pa.Schema | None = None
    """The columns without date and hour; None for a table that does not exist."""
    keeps: str = KEEP_ALL
    """Every record, or the latest of each key."""
    reached: Mapping[int, int] = {}
    """The largest timestamp of each partition, in microseconds since 1970."""
    complete_until: int | None = None
    """Earlier hours are complete, except for late records; None: no hour is complete."""
    begins: Mapping[int, int] = {}
    """Start offsets, if each commit repeats them: see `Sink.begins`."""
    partition_by: str | None = None
    """The option --partition-by: none, day or hour; None if unknown."""
    has_earlier_topic: bool = False
    """Whether the table also has records of a deleted topic of this name, with the same offsets."""
    has_dates: bool = False
    """Whether the table is partitioned by columns date and hour, as Iceberg tables of earlier versions are."""


class Commit(NamedTuple):
    """One commit: the new files and end offsets."""

    cluster_id: str
    topic_id: UUID
    topic: str
    ranges: Sequence[OffsetRange]
    lost: Sequence[OffsetRange]
    files: Sequence[WrittenFile]
    run_id: str
    reached: Mapping[int, int]
    """The largest timestamp of each partition in the files, in microseconds since 1970."""
    required_partitions: frozenset[int] = frozenset()
    """Partitions with records: no hour is complete while the table has no timestamp of one of them."""
    schema: pa.Schema = RECORDS
    """The columns of the table after this commit."""
    keeps: str = KEEP_ALL
    partition_by: str = "none"
    target_file_bytes: int = 256 * 1024 * 1024
    compression: str = "zstd"
    """The codec of rewritten files."""
    skipped: Sequence[OffsetRange] = ()
    """Skipped parts of the ranges: damaged and unreadable batches."""

    @property
    def ends(self) -> dict[int, int]:
        """The new end offset of each partition in the commit."""
        return {each.partition: each.end for each in (*self.lost, *self.ranges)}

    @property
    def starts(self) -> dict[int, int]:
        """The end offsets that the commit requires of the table."""
        starts: dict[int, int] = {}
        for each in (*self.lost, *self.ranges):
            starts[each.partition] = min(each.start, starts.get(each.partition, each.start))
        return starts

    def known(self, state: TableState) -> Mapping[int, int]:
        """The end offsets of the table for this topic id; none for a recreated topic."""
        return state.offsets if state.topic_id == self.topic_id else {}

    def begins(self, state: TableState) -> dict[int, int]:
        """The start offsets of partitions that are new in the table."""
        known = self.known(state)
        return {partition: start for partition, start in self.starts.items() if partition not in known}

    def reach(self, state: TableState) -> tuple[dict[int, int], dict[int, int]]:
        """The start and end offsets of all partitions after this commit."""
        before = state.begins if state.topic_id == self.topic_id else {}
        return {**before, **self.begins(state)}, {**self.known(state), **self.ends}

    def has_earlier_topic(self, state: TableState) -> bool:
        """The value of `TableState.has_earlier_topic` after this commit."""
        return state.has_earlier_topic or state.topic_id not in (None, self.topic_id)

    def replaces(self, state: TableState) -> bool:
        """Whether rows of the files replace rows of the table."""
        return self.keeps == KEEP_LATEST and bool(state.offsets)


class Merging(NamedTuple):
    """How small files are merged: into files of about `target_file_bytes`; larger files stay."""

    target_file_bytes: int
    compression: str
    is_dry_run: bool = False
    """Only count the files."""


class Merged(NamedTuple):
    """The numbers of files before and after a merge."""

    before: int
    after: int


class Sink(Protocol):
    """A table in a folder. All methods raise `ExportFailed`."""

    def state(self, partitions: Iterable[int]) -> TableState:
        """The state of the table; `partitions` are the current partitions of the topic."""

    def begins(self, state: TableState) -> Mapping[int, int]:
        """The first exported offset of each partition; empty for tables of earlier versions."""

    def check_store(self) -> None:
        """Check before a run writes files that the store supports `commit`. Raises `UnsupportedStore`."""

    def recover(self) -> None:
        """Complete the remaining steps of a run that was killed after its commit."""

    def commit(self, state: TableState, commit: Commit) -> int:
        """Add the files to the table. Raises `CommitConflict` if the table has changed since `state`.

        Returns the new version.
        """

    def files(self) -> list[str]:
        """The paths of all files of the table, relative to its folder."""

    def kept(self, older_than_s: float) -> set[str] | None:
        """The files of the table, and files that were replaced less than `older_than_s` ago: readers may use them.

        None if there is no table: the owner of files in the folder is then unknown.
        """

    def shorten_log(self, older_than_s: float) -> int:
        """Write a checkpoint of a log that would grow without limit, and remove commits before an older checkpoint.

        Returns the number of removed commits. Call it after the deletion of files that are not in `kept`.
        """

    def merge_small(self, merging: Merging) -> Merged:
        """Replace small files of the table by larger ones with the same rows, in one commit without other changes.

        Does nothing if the table has features of other engines that the commit would have to support. Raises
        `CommitConflict` if another writer has replaced files concurrently.
        """
