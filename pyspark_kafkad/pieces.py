"""What one task reads, of a batch or of a stream."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from kafkad.export.problems import ExportFailed
from kafkad.export.ranges import OffsetRange
from kafkad.export.reading.source import Source, read_range
from kafkad.export.schema import RECORDS


@dataclass
class TopicRange(InputPartition):
    """Goes to a worker."""

    source: Source
    wanted: OffsetRange


def check_columns(columns: Sequence[str]) -> None:
    unknown = [name for name in columns if name not in RECORDS.names]
    if unknown:
        raise ExportFailed(f"there is no column {unknown[0]!r}: {', '.join(RECORDS.names)}")


def read_piece(piece: InputPartition, columns: list[str]) -> Iterator[pa.RecordBatch]:
    if not isinstance(piece, TopicRange):
        # Where there is nothing to read, Spark has a piece of its own read.
        return
    for batch in read_range(piece.source, piece.wanted):
        yield batch.select(columns)
