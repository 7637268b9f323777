"""How many connections does the broker have from one address, and in all, over all network processes?

Each network process has its own table in shared memory and adds up all tables. It counts a connection before it
checks the limit: two processes that accept at the same moment see each other's count, so the limit holds (at the
limit both may refuse theirs). An address has a place in one bucket by its hash; when a bucket is full of other
addresses, it is counted in its own process only.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from kafkad.adapters.shared_memory.shared_region import PAGE, SharedRegion

BUCKETS, WAYS = 1024, 16
_WORDS_PER_BUCKET = 2 * WAYS
_TOTAL_WORDS = 8
"""The first cache line of a table is the number of all connections; the buckets follow: (hash, count) pairs."""
TABLE_BYTES = -(-8 * (_TOTAL_WORDS + BUCKETS * _WORDS_PER_BUCKET) // PAGE) * PAGE
_WORDS_PER_TABLE = TABLE_BYTES // 8


class ConnectionCounts:
    """The tables as network process `index` sees them; `others` are the live ones beside it."""

    def __init__(self, region: SharedRegion, index: int, others: Callable[[], Iterable[int]]) -> None:
        self._words = region.view.cast("Q")
        self._own_at = index * _WORDS_PER_TABLE
        self._others = others
        self._by_host: Counter[str] = Counter()
        # The sockets that the previous incarnation counted are closed.
        region.punch(index * TABLE_BYTES, TABLE_BYTES)

    def enter(self, host: str) -> None:
        """Count one more from `host`; all processes see it when this returns."""
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
        """Connections of this process alone."""
        return self._words[self._own_at]

    def total(self) -> int:
        return self.here + sum(self._words[index * _WORDS_PER_TABLE] for index in self._others())

    def from_host(self, host: str) -> int:
        key, first = _place(host)
        count = self._by_host[host]
        for index in self._others():
            at = index * _WORDS_PER_TABLE + first
            pairs = self._words[at : at + _WORDS_PER_BUCKET].tolist()
            count += sum(pairs[1::2][way] for way, known in enumerate(pairs[::2]) if known == key)
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
    """An address's key, and where its bucket begins. All processes are forked from one, so their hashes agree."""
    key = hash(host) & (2**63 - 1) or 1
    return key, _TOTAL_WORDS + key % BUCKETS * _WORDS_PER_BUCKET
