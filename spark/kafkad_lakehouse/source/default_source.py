"""The data source: the driver plans, the workers read Arrow batches."""

from collections.abc import Iterator, Sequence
from typing import NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkad_lakehouse.source.errors import IllegalArgumentException, in_one_line
from kafkad_lakehouse.source.options import ReadOptions, check, flag, lower_case, plan_read
from kafkad_lakehouse.source.stream import RejectedStream, TopicStreamReader
from kafkad_lakehouse.source.tasks import TopicRange, read_piece

_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
_ADDED = {
    "includeHeaders": {"headers": "array<struct<key:string,value:binary>>"},
    "includeMetadata": {"leaderEpoch": "int", "producerId": "bigint"},
}
"""Additional columns by option."""
_NO_SINK = "kafkad is only a source: write to topics by Spark's own sink, format('kafka')"


class DefaultSource(DataSource):
    """Spark finds the class by its name in a module with the name of the format."""

    @classmethod
    def name(cls) -> str:
        return "kafkad"

    def schema(self) -> str:
        with in_one_line():
            values = lower_case(self.options)
            # When the data frame is created, as in Spark's Kafka source.
            check(values)
            added = [columns for option, columns in _ADDED.items() if flag(values, option)]
        return ", ".join(f"{name} {kind}" for columns in (_COLUMNS, *added) for name, kind in columns.items())

    def reader(self, schema: StructType) -> "TopicReader":
        with in_one_line():
            return TopicReader(ReadOptions.parse(self.options), _checked(schema))

    def streamReader(self, schema: StructType) -> TopicStreamReader:
        try:
            return TopicStreamReader(ReadOptions.parse(self.options, is_stream=True), _checked(schema))
        except IllegalArgumentException as wrong:
            return RejectedStream(wrong)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        with in_one_line():
            raise IllegalArgumentException(_NO_SINK)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        with in_one_line():
            raise IllegalArgumentException(_NO_SINK)


class TopicReader(DataSourceReader):
    """A batch: the records that exist when it is planned."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)

    def partitions(self) -> list[InputPartition]:
        with in_one_line():
            planned = plan_read(self._options)
        return [TopicRange(source, offset_range) for source, offset_range in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(partition, self._columns)


def _checked(schema: StructType) -> list[str]:
    """The requested columns. Raises `IllegalArgumentException`."""
    known = {name: kind for columns in (_COLUMNS, *_ADDED.values()) for name, kind in columns.items()}
    for field in schema.fields:
        kind = known.get(field.name)
        if kind is None:
            raise IllegalArgumentException(f"no column {field.name!r} exists, only {', '.join(known)}")
        if field.dataType.simpleString() != kind:
            raise IllegalArgumentException(f"the column {field.name} is {kind}, not {field.dataType.simpleString()}")
    return schema.names
