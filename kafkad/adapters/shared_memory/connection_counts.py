"""The broker's numbers of connections, by address and in total, over all network processes.

Each network process has a table in shared memory and adds up all tables. A connection is counted before the limit is
checked, so the limit holds when two processes accept at the same moment (both may reject theirs at the limit). The
hash of an address selects its bucket; if other addresses fill the bucket, the address is counted within its process
only.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from kafkad.adapters.shared_memory.shared_region import PAGE, SharedRegion

BUCKETS, WAYS = 1024, 16
_WORDS_PER_BUCKET = 2 * WAYS
_TOTAL_WORDS = 8
"""The first cache line of a table has the number of all connections; then come the buckets of (hash, count) pairs."""
TABLE_BYTES = -(-8 * (_TOTAL_WORDS + BUCKETS * _WORDS_PER_BUCKET) // PAGE) * PAGE
_WORDS_PER_TABLE = TABLE_BYTES // 8


class ConnectionCounts:
    """The tables in network process `index`; `others` returns the indexes of other live network processes."""

    def __init__(self, region: SharedRegion, index: int, others: Callable[[], Iterable[int]]) -> None:
        self._words = region.view.cast("Q")
        self._own_at = index * _WORDS_PER_TABLE
        self._others = others
        self._by_host: Counter[str] = Counter()
        # The sockets that the previous incarnation counted are closed.
        region.punch(index * TABLE_BYTES, TABLE_BYTES)

    def enter(self, host: str) -> None:
        """Count a new connection from `host`; other processes see the count when this returns."""
        self._by_host[host] += 1
        self._words[self._own_at] += 1
        self._publish(host)

    def leave(self, host: str) -> None:
        self._by_host[host] -= 1
        self._words[self._own_at] -= 1
        self._publish(host)
        if not self._by_host[host]:
            del self._by_host[host]

    @property
    def here(self) -> int:
        """The connections of this process."""
        return self._words[self._own_at]

    def total(self) -> int:
        return self.here + sum(self._words[index * _WORDS_PER_TABLE] for index in self._others())

    def from_host(self, host: str) -> int:
        key, first = _place(host)
        count = self._by_host[host]
        for index in self._others():
            at = index * _WORDS_PER_TABLE + first
            pairs = self._words[at : at + _WORDS_PER_BUCKET].tolist()
            count += sum(pairs[1::2][way] for way, stored in enumerate(pairs[::2]) if stored == key)
        return count

    def _publish(self, host: str) -> None:
        key, first = _place(host)
        at = self._own_at + first
        pairs = self._words[at : at + _WORDS_PER_BUCKET].tolist()
        keys = pairs[::2]
        if key not in keys:
            free = next((way for way in range(WAYS) if not pairs[2 * way + 1]), None)
            if free is None:
                return
            self._words[at + 2 * free] = key
            way = free
        else:
            way = keys.index(key)
        self._words[at + 2 * way + 1] = self._by_host[host]


def _place(host: str) -> tuple[int, int]:
    """The key of an address, and the begin of its bucket. All processes have the same hash seed due to the fork."""
    key = hash(host) & (2**63 - 1) or 1
    return key, _TOTAL_WORDS + key % BUCKETS * _WORDS_PER_BUCKET
