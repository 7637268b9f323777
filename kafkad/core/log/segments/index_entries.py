"""Which index entries does a segment have? As in Apache Kafka: after more than index.interval.bytes, the next batch
adds one offset entry (its last offset and its position) and one time entry with the largest timestamp so far.
"""

from kafkad.core.log.segments.index import NO_ENTRY, OFFSET_ENTRY, TIME_ENTRY
from kafkad.core.types import NO_TIMESTAMP


class IndexEntries:
    """Both indexes of a segment, built in memory: `count` each batch, then `finish`."""

    __slots__ = (
        "_base_offset",
        "_interval",
        "_last_time",
        "bytes_since_entry",
        "first_timestamp",
        "max_timestamp",
        "offset_of_max_timestamp",
        "offsets",
        "size",
        "times",
    )

    def __init__(self, base_offset: int, interval: int) -> None:
        self._base_offset = base_offset
        self._interval = interval
        self._last_time = NO_ENTRY[0]
        self.offsets = bytearray()
        self.times = bytearray()
        self.bytes_since_entry = 0
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.size = 0

    def count(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add a batch of `size` bytes at byte `self.size`, as in `Segment.count_batch`."""
        if self.size == 0:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = max_timestamp, last_offset
        if self.bytes_since_entry > self._interval:
            self.offsets += OFFSET_ENTRY.pack(last_offset - self._base_offset, self.size)
            self._add_time_entry()
            self.bytes_since_entry = 0
        self.bytes_since_entry += size
        self.size += size

    def finish(self) -> None:
        """Add the final time entry of a complete segment."""
        if self.size:
            self._add_time_entry()

    def _add_time_entry(self) -> None:
        if self.max_timestamp > self._last_time:
            self.times += TIME_ENTRY.pack(self.max_timestamp, self.offset_of_max_timestamp - self._base_offset)
            self._last_time = self.max_timestamp
