"""The columns of an exported topic, with the names and types of Spark's own Kafka source.

Headers are a list of key and value. Batches of the Spark data source must match these types exactly.
"""

import pyarrow as pa

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
RECORDS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", HEADERS),
    ]
)
METADATA = pa.schema([pa.field("leaderEpoch", pa.int32()), pa.field("producerId", pa.int64())])
"""Columns that Spark's own Kafka source does not have; producerId is null without a producer id."""
CREATE_TIME, LOG_APPEND_TIME = 0, 1
REASON = "reason"
DEAD_LETTERS = pa.schema([*RECORDS, pa.field(REASON, pa.string())])
"""Unparsed records, or damaged batches with their bytes as value, and the reason."""
