"""Why our data source has no pushFilters: what Spark makes of one, by the documentation, is wrong.

When this fails, Spark has repaired it, and decision 060 can be looked at again.
"""

from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, GreaterThanOrEqual, InputPartition
from pyspark.sql.types import StructType


class _Number(InputPartition):
    """A row of its own."""


class _PushedReader(DataSourceReader):
    """Ten rows. Filters narrow the partitions, and all of them are left to Spark as well."""

    def __init__(self) -> None:
        self._least = 0

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            if isinstance(each, GreaterThanOrEqual):
                self._least = each.value
        return filters

    def partitions(self) -> list[InputPartition]:
        return [_Number(each) for each in range(self._least, 10)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)


class _Pushed(DataSource):
    @classmethod
    def name(cls) -> str:
        return "pushed"

    def schema(self) -> str:
        return "v int"

    def reader(self, schema: StructType) -> _PushedReader:
        return _PushedReader()


def test_the_last_filter_that_is_pushed_down_counts_for_every_use_of_a_frame(spark: SparkSession) -> None:
    spark.dataSource.register(_Pushed)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("pushed").load()
        assert frame.count() == 10
        assert frame.where("v >= 7").count() == 3
        assert frame.count() == 3
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
