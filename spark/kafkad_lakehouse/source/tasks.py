"""The range of one task, of a batch or of a stream, and reading it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from kafkad_lakehouse.export.ranges import OffsetRange
from kafkad_lakehouse.export.reading.shared_client import SharedClient
from kafkad_lakehouse.export.reading.source import Source, read_range
from kafkad_lakehouse.export.schema import METADATA
from kafkad_lakehouse.source.errors import in_one_line


@dataclass
class TopicRange(InputPartition):
    """The range of a task, sent to a worker."""

    source: Source
    offset_range: OffsetRange


def narrowed(source: Source, columns: Sequence[str]) -> Source:
    """The source without the data that these columns do not need."""
    return replace(
        source, with_headers="headers" in columns, with_metadata=any(name in METADATA.names for name in columns)
    )


def read_piece(piece: InputPartition, columns: list[str]) -> Iterator[pa.RecordBatch]:
    if not isinstance(piece, TopicRange):
        # Without any range Spark passes an empty partition of its own.
        return
    with in_one_line(), SharedClient() as client:
        for batch in read_range(narrowed(piece.source, columns), piece.offset_range, client):
            yield batch.select(columns)
