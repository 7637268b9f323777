"""The columns of an exported topic: names and types are those of Spark's own Kafka source.

With headers: a list of key and value. Batches of the Spark data source have to match these types exactly.
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
"""What Spark's own Kafka source does not have; null where a producer has no id."""
CREATE_TIME, LOG_APPEND_TIME = 0, 1
REASON = "reason"
DEAD_LETTERS = pa.schema([*RECORDS, pa.field(REASON, pa.string())])
"""Records whose value could not be parsed, as they are, and why; damaged batches, with their bytes as value."""
