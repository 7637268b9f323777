"""Does a table have each record of the log once? Counts, distinct offsets and gaps, partition by partition; and are its
files there, and no two of them with the same offsets?
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kafkad.export.latest import latest_offsets
from kafkad.export.places import TableFolder
from kafkad.export.ranges import OffsetRange
from kafkad.export.reading.damage import Damaged
from kafkad.export.reading.shared_client import SharedClient
from kafkad.export.reading.source import Source, read_pieces, without_damaged
from kafkad.export.wanted import KEEP_LATEST


class Verified(NamedTuple):
    """`rows` and `doubled` of the table; `compared` offsets are still in the log, `missing` of them not in the table,
    and `foreign` ones only there. `compacted` are those that the log of a compacted topic has no more, as it seems.
    """

    partition: int
    rows: int
    doubled: int
    compared: int
    missing: int
    foreign: int
    compacted: int

    @property
    def is_right(self) -> bool:
        return not (self.doubled or self.missing or self.foreign)


class FileOffsets(NamedTuple):
    """What a file has of a partition."""

    path: str
    offsets: np.ndarray


class WrongFile(NamedTuple):
    """A file of the table that can't be as it is."""

    path: str
    problem: str


class Read(NamedTuple):
    """The offsets that the files of a table have, by partition, and the files that have none to tell."""

    offsets: Mapping[int, Sequence[FileOffsets]]
    wrong: Sequence[WrongFile]


def read_offsets(files: Iterable[tuple[TableFolder, str]]) -> Read:
    """Of all files of the table, dead letters included."""
    found: dict[int, list[FileOffsets]] = {}
    wrong = []
    for folder, path in files:
        full = f"{folder.out.rstrip('/')}/{path}"
        try:
            table = pq.read_table(pa.BufferReader(folder.read(path)), columns=["partition", "offset"])
        except FileNotFoundError:
            wrong.append(WrongFile(full, "is missing: the table names it, and it is not there"))
            continue
        except pa.ArrowInvalid as error:
            wrong.append(WrongFile(full, f"can't be read: {error}"))
            continue
        for partition in table.column("partition").unique().to_pylist():
            rows = table.filter(pa.compute.equal(table.column("partition"), partition))
            found.setdefault(partition, []).append(FileOffsets(full, rows.column("offset").to_numpy()))
    return Read(found, wrong)


def overlaps(files: Iterable[FileOffsets], end: int) -> list[WrongFile]:
    """Which files have offsets of a partition that another one has as well, up to where the table goes."""
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
) -> list[Verified]:
    """Compare the offsets of the table with those of the log, from the `first` that both can have to the `ends`.

    With `skips_damage` the table need not have what is damaged in the log.

    Dead letters are a part of the table, up to where it goes; theirs may go further for a while.
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
            )
            for partition, end in sorted(ends.items())
        ]


def _verify_one(
    wanted: OffsetRange,
    files: Sequence[FileOffsets],
    source: Source,
    client: SharedClient,
    keeps: str,
    is_compacted: bool,
    skips_damage: bool,
) -> Verified:
    partition, first, end = wanted
    found = np.concatenate([each.offsets for each in files]) if files else np.empty(0, np.int64)
    found = found[found < end]
    distinct = np.unique(found)
    damaged: list[Damaged] = []
    batches = without_damaged(read_pieces(source, wanted, client), damaged)
    if keeps == KEEP_LATEST:
        log = latest_offsets(batches).to_numpy()
    else:
        there = [batch.column("offset").to_numpy() for batch in batches]
        log = np.concatenate(there) if there else np.empty(0, np.int64)
    here = distinct[distinct >= first]
    for each in damaged:
        # The dead letter has the first offset; what else was in it, and perhaps exported in time, nobody knows now.
        has_letter = each.offset in here or not skips_damage
        log = np.append(log, each.offset) if has_letter else log
        here = here[(here <= each.offset) | (here >= each.end)]
    only_here = np.setdiff1d(here, log, assume_unique=True).size
    # A table of all records has those as well that compaction has removed since.
    compacted = only_here if is_compacted and keeps != KEEP_LATEST else 0
    return Verified(
        partition=partition,
        rows=found.size,
        doubled=found.size - distinct.size,
        compared=log.size,
        missing=np.setdiff1d(log, here, assume_unique=True).size,
        foreign=only_here - compacted,
        compacted=compacted,
    )
