"""What one task reads, of a batch or of a stream."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from kafkad.export.ranges import OffsetRange
from kafkad.export.reading.shared_client import SharedClient
from kafkad.export.reading.source import Source, read_range
from kafkad.export.schema import METADATA
from pyspark_kafkad.failing import in_one_line


@dataclass
class TopicRange(InputPartition):
    """Goes to a worker."""

    source: Source
    wanted: OffsetRange


def narrowed(source: Source, columns: Sequence[str]) -> Source:
    """What these columns do not need is not made."""
    return replace(
        source, with_headers="headers" in columns, with_metadata=any(name in METADATA.names for name in columns)
    )


def read_piece(piece: InputPartition, columns: list[str]) -> Iterator[pa.RecordBatch]:
    if not isinstance(piece, TopicRange):
        # Where there is nothing to read, Spark has a piece of its own read.
        return
    with in_one_line(), SharedClient() as client:
        for batch in read_range(narrowed(piece.source, columns), piece.wanted, client):
            yield batch.select(columns)
