"""Maps each key to the offset of its latest record: a hash table of numpy columns, with 24 bytes per entry.

Keys are identified by a hash of 128 bits with a random seed per pass, so that a client can't create colliding keys. A
whole chunk of keys is probed at once, each key with its own step (double hashing), so a table that is nine tenths full
still takes few rounds.
"""

from typing import NamedTuple

import numpy as np
from xxhash import xxh3_128_digest

from kafkad.core.columns.arrays import Flags, Numbers, Unsigned

ENTRY_BYTES = 24
_ENTRY = np.dtype(("V", ENTRY_BYTES))
NOT_FOUND = -1
_NEXT = 2
"""The column with the offset after the latest record."""

_FEW_SIZES = 8
"""Keys of at most this many different sizes are gathered size by size."""
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


class KeyHashes(NamedTuple):
    """Two columns of 64 bits."""

    first: Unsigned
    second: Unsigned


def hash_keys(data: bytes, at: Numbers, size: Numbers, seed: int) -> KeyHashes:
    """The hashes of the keys at these positions."""
    sizes = np.unique(size)
    if sizes.size > _FEW_SIZES or not sizes.all():
        places = zip(at.tolist(), (at + size).tolist(), strict=True)
        columns = _hashed([data[start:end] for start, end in places], seed)
        return KeyHashes(columns[:, 0].copy(), columns[:, 1].copy())
    hashes = KeyHashes(np.empty(at.size, np.uint64), np.empty(at.size, np.uint64))
    for each in sizes.tolist():
        rows = np.flatnonzero(size == each)
        columns = _hashed(_keys_of_size(data, at[rows], each), seed)
        hashes.first[rows], hashes.second[rows] = columns[:, 0], columns[:, 1]
    return hashes


def _keys_of_size(data: bytes, at: Numbers, size: int) -> list[bytes]:
    """Equal to `data[start : start + size]` for each start, in half the time."""
    every = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), size)
    return every[at].view(f"V{size}").reshape(-1).tolist()


def _hashed(keys: list[bytes], seed: int) -> Unsigned:
    digests = b"".join([xxh3_128_digest(key, seed) for key in keys])
    return np.frombuffer(digests, np.uint64).reshape(-1, 2)


class OffsetMap:
    """A mutable table; unused slots take no memory."""

    __slots__ = ("_entries", "entries", "slots")

    def __init__(self, slots: int) -> None:
        """The number of slots is a prime, so that every step visits every slot: see `prime_up_to`, `prime_from`."""
        self.slots = slots
        self.entries = 0
        self._entries = np.zeros((slots, 3), np.uint64)
        """Both halves of the hash, and the offset plus one (0: an empty slot), next to each other in a cache line."""

    def put(self, keys: KeyHashes, offsets: Numbers) -> Numbers:
        """Returns the offsets that are no longer the latest of their key.

        `offsets` ascend, and are larger than all in the table. The table must have a slot for each new key, and one
        more empty slot.
        """
        slot, step = self._places(keys)
        entries = np.column_stack((keys.first, keys.second, (offsets + 1).astype(np.uint64)))
        superseded = [np.zeros(0, np.uint64)]
        while slot.size:
            found = self._entries.take(slot, axis=0)
            is_pending = found[:, _NEXT] != 0
            known = np.flatnonzero(is_pending & _same_key(found, entries))
            if known.size:
                superseded.append(found[known, _NEXT])
                superseded.append(self._renew(slot[known], entries[known, _NEXT]))
            empty = np.flatnonzero(~is_pending)
            is_pending[known] = False
            if empty.size:
                others, late = self._claim(slot[empty], entries[empty])
                is_pending[empty[others]] = True
                superseded.append(late)
            pending = np.flatnonzero(is_pending)
            entries, step = entries[pending], step[pending]
            slot = self._advanced(slot[pending], step)
        return np.concatenate(superseded).astype(np.int64) - 1

    def _renew(self, slot: Numbers, following: Unsigned) -> Unsigned:
        """Keys get a later offset. Rows are in offset order, and of several rows for one slot numpy keeps the last;
        returns the offsets of the others."""
        self._entries[slot, _NEXT] = following
        late: Unsigned = following[self._entries[slot, _NEXT] != following]
        return late

    def _claim(self, slot: Numbers, entries: Unsigned) -> tuple[Numbers, Unsigned]:
        """Empty slots get a key. If several rows have the same slot, the last gets it.

        Returns the rows whose key is not in the slot, and the offsets of rows whose key has a later one there.
        """
        # As items of 24 bytes: number by number it takes two and a half times as long.
        self._entries.view(_ENTRY)[slot, 0] = entries.view(_ENTRY)[:, 0]
        there = self._entries.take(slot, axis=0)
        others = np.flatnonzero(there[:, _NEXT] != entries[:, _NEXT])
        self.entries += slot.size - others.size
        assert self.entries < self.slots, f"{self.entries} keys in {self.slots} slots"
        is_mine = _same_key(there[others], entries[others])
        return others[~is_mine], entries[others[is_mine], _NEXT]

    def count_new(self, keys: KeyHashes) -> int:
        """The number of different `keys` that are not in the table."""
        missing = self.get(keys) == NOT_FOUND
        return int(np.unique(np.column_stack((keys.first[missing], keys.second[missing])), axis=0).shape[0])

    def get(self, keys: KeyHashes) -> Numbers:
        """The latest offset of each key; `NOT_FOUND` for a missing key."""
        found = np.full(keys.first.size, NOT_FOUND, np.int64)
        rows = np.arange(keys.first.size)
        slot, step = self._places(keys)
        hashes = np.column_stack(keys)
        while rows.size:
            entries = self._entries.take(slot, axis=0)
            mine = _same_key(entries, hashes)
            found[rows[mine]] = entries[mine, _NEXT].astype(np.int64) - 1
            pending = np.flatnonzero(~mine & (entries[:, _NEXT] != 0))
            rows, hashes, step = rows[pending], hashes[pending], step[pending]
            slot = self._advanced(slot[pending], step)
        return found

    def _places(self, keys: KeyHashes) -> tuple[Numbers, Numbers]:
        """The first slot of each key, and the step to the next ones."""
        slots = np.uint64(self.slots)
        slot = (keys.first >> _HALF) * slots >> _HALF
        step = np.uint64(1) + ((keys.second & _LOW) * (slots - np.uint64(1)) >> _HALF)
        return slot.astype(np.int64), step.astype(np.int64)

    def _advanced(self, slot: Numbers, step: Numbers) -> Numbers:
        moved = slot + step
        moved[moved >= self.slots] -= self.slots
        return moved


def _same_key(some: Unsigned, others: Unsigned) -> Flags:
    same: Flags = (some[:, 0] == others[:, 0]) & (some[:, 1] == others[:, 1])
    return same


def prime_up_to(number: int) -> int:
    """The largest prime up to `number`, at least 3."""
    number = max(number, 3)
    while not _is_prime(number):
        number -= 1
    return number


def prime_from(number: int) -> int:
    """The smallest prime from `number` on."""
    number = max(number, 3)
    while not _is_prime(number):
        number += 1
    return number


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))
