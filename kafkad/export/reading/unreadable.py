"""Batches that are as they were written, but whose records can't be read: they decompress to very much, have very many
records or headers, or are no records. Producers may send such batches (decision 003).
"""

from collections.abc import Callable, Generator, Iterator

import numpy as np
import pyarrow as pa

from kafkad.core.columns.arrays import Flags
from kafkad.core.columns.window import BatchWindow
from kafkad.core.log.records.batch import CorruptBatch
from kafkad.export.reading.damage import Damaged

Decode = Callable[[BatchWindow, Flags, int], Iterator[pa.RecordBatch]]
"""The records of the visible batches of a window, from an offset on. Raises `CorruptBatch`."""


def batch_of(window: BatchWindow, error: CorruptBatch) -> Damaged:
    """The batch of the window that `error` tells of."""
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
    """What `decode` returns, with each batch that it can't read as a piece of its own. Returns the next offset.

    It halves the window until the batch is alone: so the others are read a few times, however many can't be.
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
