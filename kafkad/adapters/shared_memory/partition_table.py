"""The state of each hosted partition, which every process reads without asking the owner.

One slot per partition: an aligned 8-byte index word, another one for truncations, and two halves with a checksum. The
owner writes the half that is not valid, then flips the index with one store; so a writer killed at any point leaves the
old half valid, and readers never wait for a writer. The slot is a cache: the log is the truth.
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
"""Traffic columns that the owner writes."""
FIRST_BYTES_OUT = OWNER_COLUMNS
"""Column of network process 0; process N writes column `FIRST_BYTES_OUT + N`, so each has one writer."""

_TRAFFIC_OFFSET = SLOTS * SLOT_BYTES
TABLE_BYTES = _TRAFFIC_OFFSET + SLOTS * _TRAFFIC_WORDS * 8
"""The size of the table's region. Sparse: a slot that was never used costs nothing."""

_READ_ATTEMPTS = 64


_BODY = struct.Struct("<16sihhBBiqqqqqqqqqqqqiqqhqqqh")
_CHECKSUM = struct.Struct("<I")
_HALF_BYTES = _BODY.size + _CHECKSUM.size
_FREE_SLOT = PartitionSlot()


class SlotUnreadable(Exception):
    """A slot has no valid half, even when read again: its memory is damaged."""


class PartitionTable:
    """All slots, in a region of `TABLE_BYTES`. One process (the owner) publishes a slot; all read it."""

    __slots__ = ("_mm", "_traffic", "_words")

    def __init__(self, region: SharedRegion) -> None:
        self._mm = region.mm
        self._words = region.view[:_TRAFFIC_OFFSET].cast("Q")
        self._traffic = region.view[_TRAFFIC_OFFSET:TABLE_BYTES].cast("Q")

    def read(self, slot: int) -> PartitionSlot:
        """The slot as last published; a free one if it never was. Raises `SlotUnreadable`."""
        for _ in range(_READ_ATTEMPTS):
            word = self._words[slot * _WORDS_PER_SLOT]
            if not word:
                return _FREE_SLOT
            offset = slot * SLOT_BYTES + _HALF_OFFSETS[word & 1]
            half = self._mm[offset : offset + _HALF_BYTES]
            body = half[: _BODY.size]
            # A valid half may be used even if the index has changed meanwhile: it is then newer.
            if crc32(body) == _CHECKSUM.unpack_from(half, _BODY.size)[0]:
                return PartitionSlot._make(_BODY.unpack(body))
        raise SlotUnreadable(f"partition slot {slot} has no valid half (index word {word:#x})")

    def publish(self, slot: int, value: PartitionSlot) -> None:
        """Write the half that is not valid, then flip. Only the owner of the slot may."""
        index = slot * _WORDS_PER_SLOT
        word = self._words[index] + 2 ^ 1
        offset = slot * SLOT_BYTES + _HALF_OFFSETS[word & 1]
        body = _BODY.pack(*value)
        self._mm[offset : offset + _HALF_BYTES] = body + _CHECKSUM.pack(crc32(body))
        # One aligned 8-byte store, after the half is whole. Where stores may pass each other (not on x86),
        # the reader's checksum catches it.
        self._words[index] = word

    def truncate_in(self, slot: int, generation: int) -> None:
        """Say, before `generation` is published, that the log's files get other bytes in it. Only the owner may."""
        self._words[slot * _WORDS_PER_SLOT + _TRUNCATION_WORD] = generation

    def truncated_in(self, slot: int) -> int:
        """The generation of the last truncation, 0 if there was none: bytes of before are not sent any more."""
        return self._words[slot * _WORDS_PER_SLOT + _TRUNCATION_WORD]

    def set_lag(self, slot: int, records: int) -> None:
        """How far the replica is behind its leader. Only the fetcher that follows it may."""
        self._words[slot * _WORDS_PER_SLOT + _LAG_WORD] = records

    def lag(self, slot: int) -> int:
        """Of a replica that follows; as its last answer was."""
        return self._words[slot * _WORDS_PER_SLOT + _LAG_WORD]

    def clear(self, slot: int) -> None:
        """Free the slot under a new generation, so that handles to the partition before never match again."""
        self.publish(slot, _FREE_SLOT._replace(generation=self.read(slot).generation + 1))

    def add_traffic(self, slot: int, column: int, amount: int) -> None:
        """Add to a column that this process alone writes (`BYTES_IN`, ..., `FIRST_BYTES_OUT + N`)."""
        self._traffic[slot * _TRAFFIC_WORDS + column] += amount

    def count_appended(self, slot: int, records: int, size: int) -> None:
        """Add to both columns that the owner writes; it does so for every slot that moved in a loop pass."""
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
        """For a slot that gets a new partition, after the grace period, when no other process writes to it."""
        start = slot * _TRAFFIC_WORDS
        for index in range(start, start + _TRAFFIC_WORDS):
            self._traffic[index] = 0
