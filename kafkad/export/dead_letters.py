"""Where are records whose value could not be parsed, and batches that are damaged? In a table of their own, beside that
of the others.

It is committed to first. A run that is killed between the two commits is repeated, and leaves out what the table of
dead letters has: everything below its end offset, as each commit goes as far as that of the table which follows it.
"""

import pyarrow as pa

from kafkad.export.reading.damage import Damaged
from kafkad.export.schema import DEAD_LETTERS


def folder_of_dead_letters(out: str) -> str:
    return f"{out.rstrip('/')}__dlq"


def of_damaged(damaged: Damaged, topic: str, partition: int) -> pa.RecordBatch:
    """The bytes as they are, at the offset that stands for all in it; who reads the table need not know the log."""
    row = {"value": damaged.data, "topic": topic, "partition": partition, "offset": damaged.offset}
    row["reason"] = str(damaged)
    return pa.RecordBatch.from_arrays(
        [pa.array([row.get(field.name)], field.type) for field in DEAD_LETTERS], schema=DEAD_LETTERS
    )
