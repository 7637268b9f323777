"""`spark.read.format("kafkad")`: topics of a broker as a data source of Spark, found by this module's name.

Columns, types and the spelling of options are those of Spark's own Kafka source. With `path` (log directories) segment
files are read, and no byte passes the broker; without `kafka.bootstrap.servers` no broker is asked at all.
There is no push-down of filters, as Spark 4.1 to 4.3 then gives wrong results: options narrow what is read, and so does
a schema that names fewer columns.
"""

from pyspark_kafkad.source import DefaultSource

__all__ = ["DefaultSource"]
