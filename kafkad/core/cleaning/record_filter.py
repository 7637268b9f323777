"""The contract of filters that select the records to retain, and the filter of compaction: the latest of each key."""

from typing import Protocol

import numpy as np

from kafkad.core.cleaning.offset_map import ENTRY_BYTES, OffsetMap, hash_keys, prime_from, prime_up_to
from kafkad.core.columns.arrays import Flags, Numbers
from kafkad.core.columns.records import RecordColumns
from kafkad.core.log.records.batch import DELETE_HORIZON_FLAG


class RecordFilter(Protocol):
    """First learns the records of the dirty segments, then selects records of the whole range, both in log order."""

    @property
    def utilization(self) -> float:
        """The used share of the allowed memory, 0 to 1."""

    def learn(self, records: RecordColumns, first_offset: int) -> int:
        """Learn the records from `first_offset` on; returns the first batch that is not learned.

        A smaller result than `records.end_batch` means that the memory is full: the pass ends before that batch.
        """

    def retains(self, records: RecordColumns, end_offset: int, now_ms: int) -> Flags:
        """A flag for each record to retain. `end_offset` is the end of the pass: later records may not be learned.

        Flags of control records are ignored; records of aborted transactions are not passed.
        """


_FLAGS_SHARE = 8
"""The flags of dirty records take at most the map's memory divided by this, in addition."""
_QUICK_LOAD = 0.6
"""The load factor of a map that may be larger than required: with 0.9 a key takes a third more time."""
LOAD_FACTORS = (0.1, 0.99)
"""The limits of the load factor: a full table is slow, an empty one useless."""


class LatestOfEachKey:
    """Retains the last record of each key, and tombstones until their delete horizon; drops records without a key."""

    def __init__(self, *, most_bytes: int, load_factor: float, most_keys: int, seed: int) -> None:
        """The map takes at most `most_bytes`, and no more than `most_keys` require."""
        least, largest = LOAD_FACTORS
        # This order also handles NaN.
        self._load_factor = max(least, min(largest, load_factor))
        self._seed = seed
        most = max(most_bytes // ENTRY_BYTES, 1)
        slots = _slots_for(min(most_keys, most), min(self._load_factor, _QUICK_LOAD))
        self._map = OffsetMap(min(prime_up_to(most), slots))
        self._first_dirty = 0
        # One byte for each dirty record, whose key then is not looked up; unused ones take no memory.
        self._is_superseded = np.zeros(min(most_keys, most_bytes // _FLAGS_SHARE), np.bool_)

    @property
    def utilization(self) -> float:
        """The used share of the map's slots."""
        return self._map.entries / self._map.slots

    @property
    def keys(self) -> int:
        return self._map.entries

    @property
    def _free_keys(self) -> int:
        """The number of new keys that the map can take."""
        most = min(int(self._map.slots * self._load_factor), self._map.slots - 1)
        return max(0, most - self._map.entries)

    def learn(self, records: RecordColumns, first_offset: int) -> int:
        self._first_dirty = first_offset
        usable = (records.key_size >= 0) & (records.offset >= first_offset)
        counted = np.concatenate((np.zeros(1, np.int64), np.cumsum(usable)))[records.first_row]
        number, count = 0, counted.size - 1
        while number < count:
            # All keys count as new, so that lookups begin only when the map is nearly full.
            upto = int(np.searchsorted(counted, counted[number] + self._free_keys, side="right")) - 1
            upto = max(upto, number + 1)
            rows = np.arange(records.first_row[number], records.first_row[upto])
            rows = rows[usable[rows]]
            keys = hash_keys(records.data, records.key_at[rows], records.key_size[rows], self._seed)
            if rows.size > self._free_keys:
                new = self._map.count_new(keys)
                if new > self._free_keys:
                    if self._map.entries:
                        break
                    # One batch has more keys than the map: enlarge the map, or the log could never be cleaned.
                    self._map = OffsetMap(_slots_for(new, self._load_factor))
            superseded = self._map.put(keys, records.offset[rows]) - first_offset
            self._is_superseded[superseded[superseded < self._is_superseded.size]] = True
            number = upto
        return records.first_batch + number

    def retains(self, records: RecordColumns, end_offset: int, now_ms: int) -> Flags:
        retained: Flags = records.offset >= end_offset
        rows = np.flatnonzero(~retained & (records.key_size >= 0))
        is_latest = self._are_latest(records, rows)
        window = records.window
        horizon_passed = window.has_flag(DELETE_HORIZON_FLAG) & (window.column("base_timestamp") <= now_ms)
        retained[rows] = is_latest & ((records.value_size[rows] >= 0) | ~horizon_passed[records.batch[rows]])
        return retained

    def _are_latest(self, records: RecordColumns, rows: Numbers) -> Flags:
        """For records before the end of the pass, all with a key."""
        at = records.offset[rows] - self._first_dirty
        is_noted = (at >= 0) & (at < self._is_superseded.size)
        latest = np.zeros(rows.size, np.bool_)
        latest[is_noted] = ~self._is_superseded[at[is_noted]]
        others = rows[~is_noted]
        keys = hash_keys(records.data, records.key_at[others], records.key_size[others], self._seed)
        latest[~is_noted] = records.offset[others] >= self._map.get(keys)
        return latest


def _slots_for(keys: int, load_factor: float) -> int:
    return prime_from(int(keys / load_factor) + 2)
