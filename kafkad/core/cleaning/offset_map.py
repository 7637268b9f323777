"""At which offset is the latest record of each key? A hash table of numpy columns, 24 bytes an entry.

Keys are known by a hash of 128 bits with a seed that is drawn for each pass: nobody can make two keys that are taken
for one. Slots are probed for a whole chunk of keys at once, each key by its own step (double hashing), so a table that
is nine tenths full still takes few rounds.
"""

from typing import NamedTuple

import numpy as np
from xxhash import xxh3_128_digest

from kafkad.core.columns.arrays import Flags, Numbers, Unsigned

ENTRY_BYTES = 24
_ENTRY = np.dtype(("V", ENTRY_BYTES))
NOT_FOUND = -1
_NEXT = 2
"""The column of the offset that follows the latest record."""

_FEW_SIZES = 8
"""Keys of so many sizes are gathered one size after the other."""
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


class KeyHashes(NamedTuple):
    """Two columns of 64 bits."""

    first: Unsigned
    second: Unsigned


def hash_keys(data: bytes, at: Numbers, size: Numbers, seed: int) -> KeyHashes:
    """The hashes of the keys that lie at these places."""
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
    """As `data[start : start + size]` for each, in half the time."""
    every = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), size)
    return every[at].view(f"V{size}").reshape(-1).tolist()


def _hashed(keys: list[bytes], seed: int) -> Unsigned:
    digests = b"".join([xxh3_128_digest(key, seed) for key in keys])
    return np.frombuffer(digests, np.uint64).reshape(-1, 2)


class OffsetMap:
    """A mutable table; untouched parts of it take no memory."""

    __slots__ = ("_entries", "entries", "slots")

    def __init__(self, slots: int) -> None:
        """The number of slots is a prime, so that every step visits every slot: `prime_up_to` or `prime_from`."""
        self.slots = slots
        self.entries = 0
        self._entries = np.zeros((slots, 3), np.uint64)
        """Both halves of the hash, and the offset and one more: 0 is an empty slot. Side by side, in one cache line."""

    def put(self, keys: KeyHashes, offsets: Numbers) -> Numbers:
        """Returns the offsets that are not the latest of their key any more.

        `offsets` ascend, and are larger than all that are in the table. There must be a slot for each new key, and one
        more, which stays free.
        """
        slot, step = self._places(keys)
        entries = np.column_stack((keys.first, keys.second, (offsets + 1).astype(np.uint64)))
        superseded = [np.zeros(0, np.uint64)]
        while slot.size:
            found = self._entries.take(slot, axis=0)
            is_left = found[:, _NEXT] != 0
            known = np.flatnonzero(is_left & _same_key(found, entries))
            if known.size:
                superseded.append(found[known, _NEXT])
                superseded.append(self._renew(slot[known], entries[known, _NEXT]))
            empty = np.flatnonzero(~is_left)
            is_left[known] = False
            if empty.size:
                others, late = self._claim(slot[empty], entries[empty])
                is_left[empty[others]] = True
                superseded.append(late)
            left = np.flatnonzero(is_left)
            entries, step = entries[left], step[left]
            slot = self._advanced(slot[left], step)
        return np.concatenate(superseded).astype(np.int64) - 1

    def _renew(self, slot: Numbers, following: Unsigned) -> Unsigned:
        """Keys get a later offset. Rows are in the order of their offsets, and of several for one slot numpy keeps the
        last; returns the offsets of the others."""
        self._entries[slot, _NEXT] = following
        late: Unsigned = following[self._entries[slot, _NEXT] != following]
        return late

    def _claim(self, slot: Numbers, entries: Unsigned) -> tuple[Numbers, Unsigned]:
        """Empty slots get a key. Several rows may want the same one: the last gets it.

        Returns the rows whose key is not there, and the offsets of those whose key is there with a later one.
        """
        # As pieces of 24 bytes: number by number it takes two and a half times as long.
        self._entries.view(_ENTRY)[slot, 0] = entries.view(_ENTRY)[:, 0]
        there = self._entries.take(slot, axis=0)
        others = np.flatnonzero(there[:, _NEXT] != entries[:, _NEXT])
        self.entries += slot.size - others.size
        assert self.entries < self.slots, f"{self.entries} keys in {self.slots} slots"
        is_mine = _same_key(there[others], entries[others])
        return others[~is_mine], entries[others[is_mine], _NEXT]

    def count_new(self, keys: KeyHashes) -> int:
        """How many different ones of `keys` are not in the table."""
        missing = self.get(keys) == NOT_FOUND
        return int(np.unique(np.column_stack((keys.first[missing], keys.second[missing])), axis=0).shape[0])

    def get(self, keys: KeyHashes) -> Numbers:
        """The latest offset of each key, `NOT_FOUND` without one."""
        found = np.full(keys.first.size, NOT_FOUND, np.int64)
        rows = np.arange(keys.first.size)
        slot, step = self._places(keys)
        wanted = np.column_stack(keys)
        while rows.size:
            entries = self._entries.take(slot, axis=0)
            mine = _same_key(entries, wanted)
            found[rows[mine]] = entries[mine, _NEXT].astype(np.int64) - 1
            left = np.flatnonzero(~mine & (entries[:, _NEXT] != 0))
            rows, wanted, step = rows[left], wanted[left], step[left]
            slot = self._advanced(slot[left], step)
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
    """The largest prime up to `number`, or the smallest that a table may have."""
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
