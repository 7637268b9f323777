"""The data source: plans in the driver, reads Arrow batches in the workers."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_kafkad.options import ReadOptions, plan_read
from pyspark_kafkad.pieces import TopicRange, check_columns, read_piece
from pyspark_kafkad.stream import TopicStreamReader

_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_ADDED = {
    "includeHeaders": "headers array<struct<key:string,value:binary>>",
    "includeMetadata": "leaderEpoch int, producerId bigint",
}
"""By the option that asks for them."""


class DefaultSource(DataSource):
    """Found by Spark, as it looks for this class in a module of the format's name."""

    @classmethod
    def name(cls) -> str:
        return "kafkad"

    def schema(self) -> str:
        added = [columns for option, columns in _ADDED.items() if self.options.get(option, "false").lower() == "true"]
        return ", ".join([_COLUMNS, *added])

    def reader(self, schema: StructType) -> "TopicReader":
        return TopicReader(ReadOptions.parse(dict(self.options)), schema.names)

    def streamReader(self, schema: StructType) -> TopicStreamReader:
        return TopicStreamReader(ReadOptions.parse(dict(self.options), is_stream=True), schema.names)


class TopicReader(DataSourceReader):
    """A batch: what is there when it is planned."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        check_columns(columns)
        self._options = options
        self._columns = list(columns)

    def partitions(self) -> list[InputPartition]:
        planned = plan_read(self._options)
        return [TopicRange(source, wanted) for source, wanted in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(partition, self._columns)
