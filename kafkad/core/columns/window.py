"""Which batches are in a section of a segment file?

Headers are scanned one by one, because each has the position of the next, and then read as columns. Batches are whole,
and their checksums are valid; `records` reads the records. No length from the file is trusted.
"""

from dataclasses import dataclass

import numpy as np

from kafkad.core.columns.arrays import Flags, Headers, Numbers
from kafkad.core.columns.starts import batch_size, batch_starts
from kafkad.core.log.records.batch import CONTROL_FLAG, HEADER_SIZE, CorruptBatch
from kafkad.core.log.records.batch_scan import ReadAt

HEADER_LAYOUT = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("records_count", ">i4"),
    ]
)
"""The fields of `batch.BatchHeader`, in the order of the bytes."""


@dataclass(frozen=True, slots=True)
class BatchWindow:
    """Contiguous whole batches. `position` is the position of `data` in the file."""

    data: bytes
    position: int
    at: Numbers
    """The start of each batch in `data`."""
    size: Numbers
    headers: Headers

    def __len__(self) -> int:
        return self.at.size

    @property
    def end(self) -> int:
        """The position of the next window in the file."""
        return self.position + (int(self.at[-1] + self.size[-1]) if self.at.size else 0)

    def column(self, name: str) -> Numbers:
        return self.headers[name].astype(np.int64)

    @property
    def last_offset(self) -> Numbers:
        return self.column("base_offset") + self.column("last_offset_delta")

    @property
    def is_control(self) -> Flags:
        return self.has_flag(CONTROL_FLAG)

    def has_flag(self, flag: int) -> Flags:
        flags: Flags = (self.column("attributes") & flag) != 0
        return flags

    def position_of(self, batch: int) -> int:
        """The position of the batch in the file."""
        return self.position + int(self.at[batch])

    def part(self, first: int, end: int) -> "BatchWindow":
        """The batches from number `first` to before `end`."""
        rows = slice(first, end)
        return BatchWindow(self.data, self.position, self.at[rows], self.size[rows], self.headers[rows])


def read_window(read_at: ReadAt, position: int, end: int, size: int) -> BatchWindow:
    """The whole batches in about `size` bytes from `position` of a file whose batches end at byte `end`; at least one.

    Raises `CorruptBatch` for the first damaged batch.
    """
    data = read_at(min(max(size, HEADER_SIZE), end - position), position)
    needed = _first_size(data, position, end)
    if needed > len(data):
        data = read_at(needed, position)
        if len(data) < needed:
            raise CorruptBatch(position, f"a batch has {needed} bytes, {len(data)} were read")
    return split_window(data, position, end)


def split_window(data: bytes, position: int, end: int) -> BatchWindow:
    """The whole batches in `data`, which was read at `position` of a file that ends at byte `end`."""
    *starts, last_end = batch_starts(data, position, end)
    positions = np.array(starts, np.int64)
    sizes = np.diff(positions, append=last_end)
    raw = np.frombuffer(data, np.uint8)[positions[:, np.newaxis] + np.arange(HEADER_SIZE)]
    headers = raw.view(HEADER_LAYOUT).reshape(-1)
    _check_offsets(headers, positions, position)
    return BatchWindow(data, position, positions, sizes, headers)


def _first_size(data: bytes, position: int, end: int) -> int:
    if len(data) < HEADER_SIZE:
        raise CorruptBatch(position, f"{len(data)} bytes remain, a batch header has {HEADER_SIZE}")
    return batch_size(data, 0, position, end)


def _check_offsets(headers: Headers, positions: Numbers, position: int) -> None:
    """Check that offsets increase from batch to batch, and are within 63 bits."""
    base = headers["base_offset"].astype(np.int64)
    delta = headers["last_offset_delta"].astype(np.int64)
    wrong = (base < 0) | (delta < 0) | (base > np.iinfo(np.int64).max - 1 - delta)
    wrong[1:] |= base[1:] <= (base + delta)[:-1]
    if wrong.any():
        batch = int(np.argmax(wrong))
        raise CorruptBatch(
            position + int(positions[batch]), f"invalid offset {base[batch]} with a last offset delta of {delta[batch]}"
        )
