"""Does a table have each record of the log once? Counts, distinct offsets and gaps, partition by partition."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kafkad.export.latest import KEEP_LATEST, latest_offsets
from kafkad.export.places import TableFolder
from kafkad.export.ranges import OffsetRange
from kafkad.export.reading.damage import Damaged
from kafkad.export.reading.source import Source, read_pieces


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


def verify(
    files: Iterable[tuple[TableFolder, str]],
    source: Source,
    ends: Mapping[int, int],
    earliest: Mapping[int, int],
    *,
    keeps: str,
    is_compacted: bool = False,
) -> list[Verified]:
    """Read the offsets of all files of the table and, as far as the log still has them, of the log.

    Dead letters are a part of the table, up to where it goes; theirs may go further for a while.
    """
    of_partition: dict[int, list[pa.ChunkedArray]] = {partition: [] for partition in ends}
    for folder, path in files:
        table = pq.read_table(pa.BufferReader(folder.read(path)), columns=["partition", "offset"])
        for partition in table.column("partition").unique().to_pylist():
            rows = table.filter(pa.compute.equal(table.column("partition"), partition))
            of_partition.setdefault(partition, []).append(rows.column("offset"))
    return [
        _verify_one(
            partition, of_partition.get(partition, []), source, end, earliest.get(partition, 0), keeps, is_compacted
        )
        for partition, end in sorted(ends.items())
    ]


def _verify_one(
    partition: int,
    columns: list[pa.ChunkedArray],
    source: Source,
    end: int,
    earliest: int,
    keeps: str,
    is_compacted: bool,
) -> Verified:
    found = np.concatenate([column.to_numpy() for column in columns]) if columns else np.empty(0, np.int64)
    found = found[found < end]
    distinct = np.unique(found)
    damaged: list[Damaged] = []
    batches = _without(damaged, read_pieces(source, OffsetRange(partition, earliest, end)))
    if keeps == KEEP_LATEST:
        log = latest_offsets(batches).to_numpy()
    else:
        there = [batch.column("offset").to_numpy() for batch in batches]
        log = np.concatenate(there) if there else np.empty(0, np.int64)
    here = distinct[distinct >= earliest]
    for each in damaged:
        # The dead letter has the first offset; what else was in it, and perhaps exported in time, nobody knows now.
        log = np.append(log, each.offset)
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


def _without(damaged: list[Damaged], pieces: Iterable[pa.RecordBatch | Damaged]) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        if isinstance(piece, Damaged):
            damaged.append(piece)
        else:
            yield piece
