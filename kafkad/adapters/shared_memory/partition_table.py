"""The state of each hosted partition, which every process can read.

One slot per partition: an aligned 8-byte index word, a word for truncations, and two halves with checksums. The owner
writes the invalid half, then switches the index with one store. So a writer killed at any point leaves the old half
valid, and readers never wait for a writer. A reader that was overtaken by a publication reads again. The slot is a
cache of the log.
"""

import struct
from zlib import crc32

from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.partition_slot import PartitionSlot

SLOTS = 1 << 20
SLOT_BYTES = 512
_HALF_OFFSETS = (64, 256)
_WORDS_PER_SLOT = SLOT_BYTES // 8
_TRUNCATION_WORD, _LAG_WORD = 1, 2

OWNER_COLUMNS = 8
NETWORK_COLUMNS = 24
_TRAFFIC_WORDS = OWNER_COLUMNS + NETWORK_COLUMNS
BYTES_IN, MESSAGES_IN = 0, 1
"""The traffic columns of the owner."""
FIRST_BYTES_OUT = OWNER_COLUMNS
"""The column of network process 0; process N writes column `FIRST_BYTES_OUT + N`, so each column has one writer."""

_TRAFFIC_OFFSET = SLOTS * SLOT_BYTES
TABLE_BYTES = _TRAFFIC_OFFSET + SLOTS * _TRAFFIC_WORDS * 8
"""The size of the table's region. Sparse: unused slots take no memory."""

_READ_ATTEMPTS = 64


_BODY = struct.Struct("<16sihhBBiqqqqqqqqqqqqiqqhqqqh")
_CHECKSUM = struct.Struct("<I")
_HALF_BYTES = _BODY.size + _CHECKSUM.size
_FREE_SLOT = PartitionSlot()


class SlotUnreadable(Exception):
    """A slot has no valid half, also in repeated reads: its memory is damaged."""


class PartitionTable:
    """All slots, in a region of `TABLE_BYTES`. Only the owner of a slot publishes it; all processes read it."""

    __slots__ = ("_mm", "_traffic", "_words")

    def __init__(self, region: SharedRegion) -> None:
        self._mm = region.mm
        self._words = region.view[:_TRAFFIC_OFFSET].cast("Q")
        self._traffic = region.view[_TRAFFIC_OFFSET:TABLE_BYTES].cast("Q")

    def read(self, slot: int) -> PartitionSlot:
        """The last published content; a free slot if there is none. Raises `SlotUnreadable`."""
        index = slot * _WORDS_PER_SLOT
        invalid = 0
        while invalid < _READ_ATTEMPTS:
            word = self._words[index]
            if not word:
                return _FREE_SLOT
            offset = slot * SLOT_BYTES + _HALF_OFFSETS[word & 1]
            half = self._mm[offset : offset + _HALF_BYTES]
            body = half[: _BODY.size]
            if word != self._words[index]:
                # The half may have been overwritten with content that is not published yet.
                continue
            if crc32(body) == _CHECKSUM.unpack_from(half, _BODY.size)[0]:
                return PartitionSlot._make(_BODY.unpack(body))
            invalid += 1
        raise SlotUnreadable(f"partition slot {slot} has no valid half (index word {word:#x})")

    def publish(self, slot: int, value: PartitionSlot) -> None:
        """Write the invalid half, then switch to it. Only for the owner of the slot."""
        index = slot * _WORDS_PER_SLOT
        word = self._words[index] + 2 ^ 1
        offset = slot * SLOT_BYTES + _HALF_OFFSETS[word & 1]
        body = _BODY.pack(*value)
        self._mm[offset : offset + _HALF_BYTES] = body + _CHECKSUM.pack(crc32(body))
        # One aligned 8-byte store, after the half is complete. If a CPU reorders stores (not x86), the checksum detects
        # this.
        self._words[index] = word

    def mark_truncation(self, slot: int, generation: int) -> None:
        """Mark a truncation before `generation` is published: the files get new bytes. Only for the owner."""
        self._words[slot * _WORDS_PER_SLOT + _TRUNCATION_WORD] = generation

    def truncation_generation(self, slot: int) -> int:
        """The generation of the last truncation, 0 if there was none: older bytes must not be sent."""
        return self._words[slot * _WORDS_PER_SLOT + _TRUNCATION_WORD]

    def set_lag(self, slot: int, records: int) -> None:
        """Set the replica's lag behind its leader. Only for the fetcher of the partition."""
        self._words[slot * _WORDS_PER_SLOT + _LAG_WORD] = records

    def lag(self, slot: int) -> int:
        """The lag of a follower after its last fetch response."""
        return self._words[slot * _WORDS_PER_SLOT + _LAG_WORD]

    def clear(self, slot: int) -> None:
        """Free the slot with a new generation, which invalidates handles to the previous partition."""
        self.publish(slot, _FREE_SLOT._replace(generation=self.read(slot).generation + 1))

    def add_traffic(self, slot: int, column: int, amount: int) -> None:
        """Add to a column of this process (`BYTES_IN`, ..., `FIRST_BYTES_OUT + N`)."""
        self._traffic[slot * _TRAFFIC_WORDS + column] += amount

    def count_appended(self, slot: int, records: int, size: int) -> None:
        """Add to both columns of the owner; called for each changed slot in each loop pass."""
        traffic, row = self._traffic, slot * _TRAFFIC_WORDS
        traffic[row + BYTES_IN] += size
        traffic[row + MESSAGES_IN] += records

    def traffic(self, slot: int, column: int) -> int:
        return self._traffic[slot * _TRAFFIC_WORDS + column]

    def bytes_out(self, slot: int) -> int:
        """Bytes fetched from the partition, over all network processes."""
        start = slot * _TRAFFIC_WORDS + FIRST_BYTES_OUT
        return sum(self._traffic[start : start + NETWORK_COLUMNS])

    def reset_traffic(self, slot: int) -> None:
        """Reset a slot for a new partition, after the grace period, when no other process writes to it."""
        start = slot * _TRAFFIC_WORDS
        for index in range(start, start + _TRAFFIC_WORDS):
            self._traffic[index] = 0
