"""The data source: plans in the driver, reads Arrow batches in the workers."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkad.export.problems import ExportFailed
from pyspark_kafkad.options import ReadOptions, flag, plan_read
from pyspark_kafkad.pieces import TopicRange, read_piece
from pyspark_kafkad.stream import TopicStreamReader

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
"""By the option that asks for them."""


class DefaultSource(DataSource):
    """Found by Spark, as it looks for this class in a module of the format's name."""

    @classmethod
    def name(cls) -> str:
        return "kafkad"

    def schema(self) -> str:
        values = {name.lower(): value for name, value in self.options.items()}
        added = [columns for option, columns in _ADDED.items() if flag(values, option)]
        return ", ".join(f"{name} {kind}" for columns in (_COLUMNS, *added) for name, kind in columns.items())

    def reader(self, schema: StructType) -> "TopicReader":
        return TopicReader(ReadOptions.parse(dict(self.options)), _checked(schema))

    def streamReader(self, schema: StructType) -> TopicStreamReader:
        return TopicStreamReader(ReadOptions.parse(dict(self.options), is_stream=True), _checked(schema))


class TopicReader(DataSourceReader):
    """A batch: what is there when it is planned."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = list(columns)

    def partitions(self) -> list[InputPartition]:
        planned = plan_read(self._options)
        return [TopicRange(source, wanted) for source, wanted in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(partition, self._columns)


def _checked(schema: StructType) -> list[str]:
    """The columns that are asked for. Raises `ExportFailed`."""
    known = {name: kind for columns in (_COLUMNS, *_ADDED.values()) for name, kind in columns.items()}
    for field in schema.fields:
        kind = known.get(field.name)
        if kind is None:
            raise ExportFailed(f"there is no column {field.name!r}: {', '.join(known)}")
        if field.dataType.simpleString() != kind:
            raise ExportFailed(f"the column {field.name} is {kind}, not {field.dataType.simpleString()}")
    return schema.names
