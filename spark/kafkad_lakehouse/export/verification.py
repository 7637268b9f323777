"""Compare a table with the log: each record must be in the table once.

Checks counts, duplicate and missing offsets of each partition, missing files, and files with the same offsets; with
`is_deep` also checksums of the records.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kafkad.core.columns.arrays import Numbers
from kafkad_lakehouse.export.latest import latest_of
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading.checksums import COLUMNS, checksums
from kafkad_lakehouse.export.reading.damage import Damaged
from kafkad_lakehouse.export.reading.shared_client import SharedClient
from kafkad_lakehouse.export.reading.source import Source, read_pieces, without_damaged
from kafkad_lakehouse.export.request import KEEP_LATEST
from kafkad_lakehouse.export.table_folder import TableFolder


class Verified(NamedTuple):
    """The result for one partition.

    The table has `rows`, of which `doubled` are duplicates. The log has `compared` offsets, of which `missing` are not
    in the table. `foreign` offsets are only in the table; for a compacted topic they count as `compacted` instead.
    """

    partition: int
    rows: int
    doubled: int
    compared: int
    missing: int
    foreign: int
    compacted: int
    different: int | None
    """The number of records that differ from the log; None: not compared."""

    @property
    def is_right(self) -> bool:
        return not (self.doubled or self.missing or self.foreign or self.different)


Sums = NDArray[np.integer[Any]]
"""The checksum of each record; zeros of one byte if records are not compared."""


class FileOffsets(NamedTuple):
    """The offsets of a partition in a file."""

    path: str
    offsets: Numbers
    sums: Sums


class WrongFile(NamedTuple):
    """A file of the table with a problem."""

    path: str
    problem: str


class Read(NamedTuple):
    """The offsets in the files of a table, by partition, and the files that can't be read."""

    offsets: Mapping[int, Sequence[FileOffsets]]
    wrong: Sequence[WrongFile]


def read_offsets(files: Iterable[tuple[TableFolder, str]], *, is_deep: bool = False) -> Read:
    """Read all files of the table and of its dead letters; `is_deep`: also compute the checksum of each record."""
    found: dict[int, list[FileOffsets]] = {}
    wrong = []
    for folder, path in files:
        full = f"{folder.out.rstrip('/')}/{path}"
        try:
            in_file = _read(full, folder.read(path), is_deep=is_deep)
        except FileNotFoundError:
            wrong.append(WrongFile(full, "is part of the table, but does not exist"))
            continue
        except (pa.ArrowInvalid, OSError) as error:
            wrong.append(WrongFile(full, f"can't be read: {error}"))
            continue
        for partition, each in in_file.items():
            found.setdefault(partition, []).append(each)
    return Read(found, wrong)


def _read(path: str, content: bytes, *, is_deep: bool) -> dict[int, FileOffsets]:
    """Offsets and checksums by partition. Raises exceptions of pyarrow."""
    found: dict[int, list[Numbers]] = {}
    sums: dict[int, list[Sums]] = {}
    columns = ["partition", "offset", *(COLUMNS if is_deep else ())]
    file = pq.ParquetFile(pa.BufferReader(content))
    groups = (file.read_row_group(number, columns) for number in range(file.num_row_groups))
    for batch in (batch for group in groups for batch in group.to_batches()):
        of_rows = _sums(batch, is_deep=is_deep)
        partitions = batch.column("partition").to_numpy()
        for partition in np.unique(partitions).tolist():
            rows = partitions == partition
            found.setdefault(partition, []).append(batch.column("offset").to_numpy()[rows])
            sums.setdefault(partition, []).append(of_rows[rows])
    return {each: FileOffsets(path, np.concatenate(found[each]), np.concatenate(sums[each])) for each in found}


def _sums(batch: pa.RecordBatch, *, is_deep: bool) -> Sums:
    return checksums(batch) if is_deep else np.zeros(batch.num_rows, np.int8)


def overlaps(files: Iterable[FileOffsets], end: int) -> list[WrongFile]:
    """Files of a partition with duplicate offsets below `end`, the end offset of the table."""
    read = list(files)
    offsets = np.concatenate([each.offsets for each in read]) if read else np.empty(0, np.int64)
    owners = np.repeat(np.arange(len(read)), [each.offsets.size for each in read])
    order = np.lexsort((owners, offsets))
    offsets, owners = offsets[order], owners[order]
    again = np.flatnonzero((offsets[1:] == offsets[:-1]) & (offsets[1:] < end))
    found: dict[tuple[int, int], list[int]] = {}
    for at in again.tolist():
        found.setdefault((int(owners[at]), int(owners[at + 1])), []).append(int(offsets[at]))
    return [
        WrongFile(
            read[one].path,
            f"and {read[other].path if one != other else 'itself'} both have offsets {both[0]} to {both[-1]}"
            f" ({len(both)} records)",
        )
        for (one, other), both in sorted(found.items())
    ]


def verify(
    read: Read,
    source: Source,
    ends: Mapping[int, int],
    first: Mapping[int, int],
    *,
    keeps: str,
    is_compacted: bool = False,
    skips_damage: bool = False,
    is_deep: bool = False,
) -> list[Verified]:
    """Compare the offsets of the table and of the log, from `first` up to but not including `ends`.

    With `skips_damage` the table need not have damaged batches of the log. Dead letters below `ends` count as rows of
    the table.
    """
    with SharedClient() as client:
        return [
            _verify_one(
                OffsetRange(partition, first.get(partition, 0), end),
                read.offsets.get(partition, ()),
                source,
                client,
                keeps,
                is_compacted,
                skips_damage,
                is_deep,
            )
            for partition, end in sorted(ends.items())
        ]


def _verify_one(
    offset_range: OffsetRange,
    files: Sequence[FileOffsets],
    source: Source,
    client: SharedClient,
    keeps: str,
    is_compacted: bool,
    skips_damage: bool,
    is_deep: bool,
) -> Verified:
    partition, first, end = offset_range
    found, found_sums = _joined((each.offsets, each.sums) for each in files)
    found, found_sums = found[found < end], found_sums[found < end]
    distinct, at = np.unique(found, return_index=True)
    damaged: list[Damaged] = []
    batches = without_damaged(read_pieces(source, offset_range, client), damaged)
    records = latest_of(batches, drops_tombstones=True) if keeps == KEEP_LATEST else batches
    log, log_sums = _joined((each.column("offset").to_numpy(), _sums(each, is_deep=is_deep)) for each in records)
    _, in_log, in_table = np.intersect1d(log, distinct, assume_unique=True, return_indices=True)
    different = int((log_sums[in_log] != found_sums[at][in_table]).sum())
    here = distinct[distinct >= first]
    for each in damaged:
        # A dead letter has the first offset of its batch. The other offsets of the batch are ignored: they may have
        # been exported before the damage.
        has_letter = each.offset in here or not skips_damage
        log = np.append(log, each.offset) if has_letter else log
        here = here[(here <= each.offset) | (here >= each.end)]
    only_here = np.setdiff1d(here, log, assume_unique=True).size
    # A table of all records also has the records that compaction removed later.
    compacted = only_here if is_compacted and keeps != KEEP_LATEST else 0
    return Verified(
        partition=partition,
        rows=found.size,
        doubled=found.size - distinct.size,
        compared=log.size,
        missing=np.setdiff1d(log, here, assume_unique=True).size,
        foreign=only_here - compacted,
        compacted=compacted,
        different=different if is_deep else None,
    )


def _joined(pairs: Iterable[tuple[Numbers, Sums]]) -> tuple[Numbers, Sums]:
    """Offsets and checksums."""
    offsets: list[Numbers] = [np.empty(0, np.int64)]
    sums: list[Sums] = [np.empty(0, np.int8)]
    for each, of_each in pairs:
        offsets.append(each)
        sums.append(of_each)
    return np.concatenate(offsets), np.concatenate(sums)
