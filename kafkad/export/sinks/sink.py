"""What every kind of table does."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

import pyarrow as pa

from kafkad.export.ranges import OffsetRange
from kafkad.export.request import KEEP_ALL, KEEP_LATEST
from kafkad.export.schema import RECORDS
from kafkad.export.writing import WrittenFile


class TableState(NamedTuple):
    """What the table has: of which topic, and up to where. `topic_id` is None for a table that has nothing yet."""

    cluster_id: str | None
    topic_id: UUID | None
    topic: str | None
    offsets: Mapping[int, int]
    """End offset by partition: the first one that the table does not have."""
    version: int
    """What a commit is conditional on; opaque."""
    columns: pa.Schema | None = None
    """Those of the table, but for date and hour; None for a table that is not there."""
    keeps: str = KEEP_ALL
    """Every record, or the latest of each key."""
    reached: Mapping[int, int] = {}
    """The largest timestamp of each partition, in microseconds."""
    complete_until: int | None = None
    """Hours before that are complete, but for records that come late; None: none is known to be."""
    begins: Mapping[int, int] = {}
    """Where a commit carries them on: see `Sink.begins`."""
    partition_by: str | None = None
    """By what its files are divided: none, day or hour. None: nobody knows."""
    has_earlier_topic: bool = False
    """Whether it also has records of a topic of this name that was there before, with the same offsets."""
    has_dates: bool = False
    """Whether it is divided by columns date and hour, as Iceberg tables of earlier versions are."""


class Commit(NamedTuple):
    """One commit: the files and how far the table goes with them."""

    cluster_id: str
    topic_id: UUID
    topic: str
    ranges: Sequence[OffsetRange]
    lost: Sequence[OffsetRange]
    files: Sequence[WrittenFile]
    run_id: str
    reached: Mapping[int, int]
    """The largest timestamp that the files have of each partition, in microseconds."""
    waits_for: frozenset[int] = frozenset()
    """Partitions that have records: while the table knows no timestamp of one of them, no hour is complete."""
    schema: pa.Schema = RECORDS
    """The columns of the table with this commit: those it had, and new ones."""
    keeps: str = KEEP_ALL
    partition_by: str = "none"
    target_file_bytes: int = 256 * 1024 * 1024
    compression: str = "zstd"
    """Of files that the commit writes anew."""
    skipped: Sequence[OffsetRange] = ()
    """Of the ranges: batches that are damaged or can't be read, and are left out."""

    @property
    def ends(self) -> dict[int, int]:
        """The new end offset of each partition that the commit is about."""
        return {each.partition: each.end for each in (*self.lost, *self.ranges)}

    @property
    def starts(self) -> dict[int, int]:
        """Where the table has to end for this commit."""
        starts: dict[int, int] = {}
        for each in (*self.lost, *self.ranges):
            starts[each.partition] = min(each.start, starts.get(each.partition, each.start))
        return starts

    def known(self, state: TableState) -> Mapping[int, int]:
        """The end offsets that the table has of this topic: one that was made again begins anew."""
        return state.offsets if state.topic_id == self.topic_id else {}

    def begins(self, state: TableState) -> dict[int, int]:
        """Of the partitions that the table has not had of this topic."""
        known = self.known(state)
        return {partition: start for partition, start in self.starts.items() if partition not in known}

    def reach(self, state: TableState) -> tuple[dict[int, int], dict[int, int]]:
        """Where each partition of the topic begins in the table with this commit, and its end offset."""
        before = state.begins if state.topic_id == self.topic_id else {}
        return {**before, **self.begins(state)}, {**self.known(state), **self.ends}

    def has_earlier_topic(self, state: TableState) -> bool:
        """Whether the table has, with this commit."""
        return state.has_earlier_topic or state.topic_id not in (None, self.topic_id)

    def replaces(self, state: TableState) -> bool:
        """Whether rows of the table are replaced by those of the files."""
        return self.keeps == KEEP_LATEST and bool(state.offsets)


class Merging(NamedTuple):
    """What small files are merged into: files of about `target_file_bytes`. What is larger already stays."""

    target_file_bytes: int
    compression: str
    is_dry_run: bool = False
    """Only say how many they are."""


class Merged(NamedTuple):
    """So many files were replaced by so many, or would be."""

    before: int
    after: int


class Sink(Protocol):
    """A table in a folder. Everything raises `ExportFailed`."""

    def state(self, partitions: Iterable[int]) -> TableState:
        """`partitions` are those that the topic has now."""

    def begins(self, state: TableState) -> Mapping[int, int]:
        """The first offset of each partition that was exported, where the table says so: older ones don't."""

    def check_store(self) -> None:
        """Before a run writes anything: can the place of the table keep what `commit` says? Raises `StoreUnfit`."""

    def settle(self) -> None:
        """Do what a run has left undone that was killed behind its commit."""

    def commit(self, state: TableState, commit: Commit) -> int:
        """Make the files part of the table, if it still is as in `state`: else raises `AnotherExport`.

        Returns the new version.
        """

    def files(self) -> list[str]:
        """The paths of all files of the table, below its folder."""

    def kept(self, older_than_s: float) -> set[str] | None:
        """The files of the table, and those that were replaced more recently: readers may be in the midst of them.

        None: there is no table, and whose the files of the folder are is not known.
        """

    def shorten_log(self, older_than_s: float) -> int:
        """Sum up a log of commits that would grow without end, and remove what was summed up so long ago. Returns the
        number of commits that are removed. To be called when what `kept` does not name is gone.
        """

    def merge_small(self, merging: Merging) -> Merged:
        """Replace small files of the table by larger ones with the same rows, in one commit that changes nothing else.

        Where another engine has done to the table what such a commit would have to mind, it does nothing. Raises
        `AnotherExport` if somebody else has replaced files meanwhile.
        """
