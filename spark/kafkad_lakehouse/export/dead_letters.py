"""The table of dead letters: records with unparsable keys or values, and damaged batches.

A run commits to this table first, then to the main table, with the same end offsets. A run that was killed between the
two commits is repeated, and omits dead letters below the end offsets of this table.
"""

import pyarrow as pa

from kafkad_lakehouse.export.reading.damage import Damaged
from kafkad_lakehouse.export.schema import DEAD_LETTERS


def folder_of_dead_letters(out: str) -> str:
    return f"{out.rstrip('/')}__dlq"


def of_damaged(damaged: Damaged, topic: str, partition: int) -> pa.RecordBatch:
    """One row with the bytes of the damaged batch, at the offset that represents the batch."""
    row = {"value": damaged.data, "topic": topic, "partition": partition, "offset": damaged.offset}
    row["reason"] = str(damaged)
    return pa.RecordBatch.from_arrays(
        [pa.array([row.get(field.name)], field.type) for field in DEAD_LETTERS], schema=DEAD_LETTERS
    )
