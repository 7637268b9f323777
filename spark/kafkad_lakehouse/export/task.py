"""One task of an export: write the records of some ranges to Parquet files, which are not committed yet.

Tasks and results are plain values: engines send them to other processes and machines.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from kafkad_lakehouse.export.coverage import Manifest, Returned, Skipped
from kafkad_lakehouse.export.dead_letters import folder_of_dead_letters, of_damaged
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading.damage import Damaged
from kafkad_lakehouse.export.reading.shared_client import SharedClient
from kafkad_lakehouse.export.reading.source import Source, read_pieces, without_damaged
from kafkad_lakehouse.export.request import KEEP_ALL
from kafkad_lakehouse.export.schema import DEAD_LETTERS
from kafkad_lakehouse.export.values.format import ValueFormat
from kafkad_lakehouse.export.writing import Layout, RangeWriter

if TYPE_CHECKING:
    from kafkad_lakehouse.export.values.batches import BatchParser


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`formats`: of parsed keys and values, which are also exported as bytes."""

    source: Source
    ranges: tuple[OffsetRange, ...]
    layout: Layout
    formats: tuple[ValueFormat, ...] = ()
    keeps: str = KEEP_ALL
    drops_tombstones: bool = False
    """With `KEEP_LATEST` for a new table, which has no rows to delete."""
    skips_damage: bool = False
    """Skip damaged and unreadable batches instead of writing them as dead letters."""
    dead_letters_from: Mapping[int, int] = field(default_factory=dict)
    """By partition: the end offset of the table of dead letters; earlier dead letters are already committed."""

    def as_attempt(self) -> Self:
        """The task with unique file names: an abandoned attempt may still be writing."""
        return replace(self, layout=replace(self.layout, attempt=f"-{os.urandom(4).hex()}"))

    @property
    def dead_letters(self) -> Layout:
        """The layout of dead letters: only bytes, without folders by date."""
        return replace(
            self.layout,
            out=folder_of_dead_letters(self.layout.out),
            schema=DEAD_LETTERS,
            partition_by="none",
            has_dates=False,
            is_dead_letters=True,
        )


def run_task(task: Task) -> Iterator[Returned]:
    """Yield each complete file, and the manifest of each complete range. Raises `ExportFailed`."""
    parser = _parser(task.formats, task.layout.schema) if task.formats else None
    with SharedClient() as client:
        for offset_range in task.ranges:
            yield from _run_range(task, offset_range, client, parser)


def _run_range(
    task: Task, offset_range: OffsetRange, client: SharedClient, parser: "BatchParser | None"
) -> Iterator[Returned]:
    records, dead = RangeWriter(task.layout, offset_range), RangeWriter(task.dead_letters, offset_range)
    skipped: list[Skipped] = []
    known = task.dead_letters_from.get(offset_range.partition, 0)
    try:
        for piece in _pieces(task, offset_range, client):
            if isinstance(piece, Damaged):
                if task.skips_damage:
                    skipped.append(Skipped(offset_range.partition, piece.offset, piece.end, str(piece)))
                elif piece.offset >= known:
                    yield from dead.write(of_damaged(piece, task.source.topic, offset_range.partition), 1)
            elif parser is None:
                yield from records.write(piece)
            else:
                parsed = parser.parse(piece, known)
                yield from records.write(parsed.records, parsed.unparsed)
                yield from dead.write(parsed.dead_letters, parsed.dead_letters.num_rows)
        yield from records.close()
        yield from dead.close()
        yield Manifest(offset_range, records.files + dead.files, records.rows, dead.rows, tuple(skipped))
    except OSError as error:
        raise ExportFailed(f"{task.layout.out} can't be written: {error}") from error
    finally:
        records.abandon()
        dead.abandon()


def _parser(formats: Sequence[ValueFormat], schema: pa.Schema) -> "BatchParser":
    # Only formats need the parsers.
    from kafkad_lakehouse.export.values.batches import BatchParser  # noqa: PLC0415

    return BatchParser(formats, schema)


def _pieces(task: Task, offset_range: OffsetRange, client: SharedClient) -> Iterator[pa.RecordBatch | Damaged]:
    pieces = read_pieces(task.source, offset_range, client)
    return pieces if task.keeps == KEEP_ALL else _latest(pieces, drops_tombstones=task.drops_tombstones)


def _latest(
    pieces: Iterator[pa.RecordBatch | Damaged], *, drops_tombstones: bool
) -> Iterator[pa.RecordBatch | Damaged]:
    # Only --keep latest needs it.
    from kafkad_lakehouse.export.latest import latest_of  # noqa: PLC0415

    damaged: list[Damaged] = []
    yield from latest_of(without_damaged(pieces, damaged), drops_tombstones=drops_tombstones)
    yield from damaged
