"""One task of an export: the records of some ranges into Parquet files, which no table knows yet.

Values in, values out: engines send tasks to other processes and machines.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from kafkad.export.coverage import Manifest, Returned, Skipped
from kafkad.export.dead_letters import folder_of_dead_letters, of_damaged
from kafkad.export.problems import ExportFailed
from kafkad.export.ranges import OffsetRange
from kafkad.export.reading.damage import Damaged
from kafkad.export.reading.shared_client import SharedClient
from kafkad.export.reading.source import Source, read_pieces, without_damaged
from kafkad.export.request import KEEP_ALL
from kafkad.export.schema import DEAD_LETTERS
from kafkad.export.values.format import ValueFormat
from kafkad.export.writing import Layout, RangeWriter

if TYPE_CHECKING:
    from kafkad.export.values.batches import BatchParser


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`formats`: of what is parsed; keys and values stay bytes, too."""

    source: Source
    ranges: tuple[OffsetRange, ...]
    layout: Layout
    formats: tuple[ValueFormat, ...] = ()
    keeps: str = KEEP_ALL
    drops_tombstones: bool = False
    """With the latest of each key, for a table that has none of them yet."""
    skips_damage: bool = False
    """Batches that are damaged, or can't be read, are left out, instead of being dead letters."""
    dead_letters_from: Mapping[int, int] = field(default_factory=dict)
    """By partition: what is before that is in the table of dead letters already."""

    def as_attempt(self) -> Self:
        """With names of files that no other attempt gives: one that was given up may still be writing."""
        return replace(self, layout=replace(self.layout, attempt=f"-{os.urandom(4).hex()}"))

    @property
    def dead_letters(self) -> Layout:
        """How they are written: bytes, and not by date."""
        return replace(
            self.layout,
            out=folder_of_dead_letters(self.layout.out),
            schema=DEAD_LETTERS,
            partition_by="none",
            has_dates=False,
            is_dead_letters=True,
        )


def run_task(task: Task) -> Iterator[Returned]:
    """Each file as soon as it is complete, and of each range that it is through. Raises `ExportFailed`."""
    parser = _parser(task.formats, task.layout.schema) if task.formats else None
    with SharedClient() as client:
        for wanted in task.ranges:
            yield from _run_range(task, wanted, client, parser)


def _run_range(
    task: Task, wanted: OffsetRange, client: SharedClient, parser: "BatchParser | None"
) -> Iterator[Returned]:
    records, dead = RangeWriter(task.layout, wanted), RangeWriter(task.dead_letters, wanted)
    skipped: list[Skipped] = []
    known = task.dead_letters_from.get(wanted.partition, 0)
    try:
        for piece in _pieces(task, wanted, client):
            if isinstance(piece, Damaged):
                if task.skips_damage:
                    skipped.append(Skipped(wanted.partition, piece.offset, piece.end, str(piece)))
                elif piece.offset >= known:
                    yield from dead.write(of_damaged(piece, task.source.topic, wanted.partition), 1)
            elif parser is None:
                yield from records.write(piece)
            else:
                parsed = parser.parse(piece, known)
                yield from records.write(parsed.records, parsed.unparsed)
                yield from dead.write(parsed.dead_letters, parsed.dead_letters.num_rows)
        yield from records.close()
        yield from dead.close()
        yield Manifest(wanted, records.files + dead.files, records.rows, dead.rows, tuple(skipped))
    except OSError as error:
        raise ExportFailed(f"{task.layout.out} can't be written: {error}") from error
    finally:
        records.abandon()
        dead.abandon()


def _parser(formats: Sequence[ValueFormat], schema: pa.Schema) -> "BatchParser":
    # Only who has something to parse needs it.
    from kafkad.export.values.batches import BatchParser  # noqa: PLC0415

    return BatchParser(formats, schema)


def _pieces(task: Task, wanted: OffsetRange, client: SharedClient) -> Iterator[pa.RecordBatch | Damaged]:
    pieces = read_pieces(task.source, wanted, client)
    return pieces if task.keeps == KEEP_ALL else _latest(pieces, drops_tombstones=task.drops_tombstones)


def _latest(
    pieces: Iterator[pa.RecordBatch | Damaged], *, drops_tombstones: bool
) -> Iterator[pa.RecordBatch | Damaged]:
    # Who keeps everything starts without it.
    from kafkad.export.latest import latest_of  # noqa: PLC0415

    damaged: list[Damaged] = []
    yield from latest_of(without_damaged(pieces, damaged), drops_tombstones=drops_tombstones)
    yield from damaged
