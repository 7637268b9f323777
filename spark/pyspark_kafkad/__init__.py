"""`spark.read.format("kafkad")`: topics of a broker as a data source of Spark, which finds it by the module's name.

Columns, types and option names are those of Spark's own Kafka source. With `path` (log directories) segment files are
read instead of the broker; without `kafka.bootstrap.servers` no broker is used. Filters are not pushed down, because
Spark 4.1 to 4.3 then returns wrong results. Options, and a schema with fewer columns, limit the data that is read.
"""

from kafkad_lakehouse.source.default_source import DefaultSource

__all__ = ["DefaultSource"]
