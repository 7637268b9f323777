"""Batches with a valid CRC and unreadable records: too large after decompression, with too many records or headers, or
with malformed records. Producers may send such batches (decision 003).
"""

from collections.abc import Callable, Generator, Iterator

import numpy as np
import pyarrow as pa

from kafkad.core.columns.arrays import Flags
from kafkad.core.columns.window import BatchWindow
from kafkad.core.log.records.batch import CorruptBatch
from kafkad_lakehouse.export.reading.damage import Damaged

Decode = Callable[[BatchWindow, Flags, int], Iterator[pa.RecordBatch]]
"""Decodes the visible batches of a window from an offset on. Raises `CorruptBatch`."""


def batch_of(window: BatchWindow, error: CorruptBatch) -> Damaged:
    """The batch at the position of `error` in the window."""
    number = int(np.searchsorted(window.at, error.position - window.position))
    at, size = int(window.at[number]), int(window.size[number])
    return Damaged(
        offset=int(window.headers["base_offset"][number]),
        end=int(window.last_offset[number]) + 1,
        data=window.data[at : at + size],
        reason=error.reason,
        is_whole=True,
    )


def without_unreadable(
    window: BatchWindow, visible: Flags, start: int, decode: Decode
) -> Generator[pa.RecordBatch | Damaged, None, int]:
    """Decode the window, and return each unreadable batch as a `Damaged` piece. Returns the next offset.

    Halves the window until it has one batch, so each batch is decoded a logarithmic number of times.
    """
    try:
        for batch in decode(window, visible, start):
            yield batch
            start = batch.column("offset")[-1].as_py() + 1
    except CorruptBatch as error:
        if len(window) == 1:
            yield batch_of(window, error)
            return start
        middle = len(window) // 2
        start = yield from without_unreadable(window.part(0, middle), visible[:middle], start, decode)
        start = yield from without_unreadable(window.part(middle, len(window)), visible[middle:], start, decode)
    return start
