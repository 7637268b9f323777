"""How many files may a process of the broker have open, and what does it share them out to?

The limit is one for each process (RLIMIT_NOFILE). Sockets of clients come first in a network process, segment files in
a worker; both have to leave room for what every process has open for the others.
"""

from dataclasses import dataclass

FEWEST_CONNECTIONS = 16
"""A network process that could have fewer serves nobody."""
USUAL_CONNECTIONS = 1000
"""What a broker should have room for, unless max.connections is lower."""
_FILES_SHARE = 4
"""A network process lets that part of its descriptors be segment files."""
SEARCHES = 4
"""Threads of a network process that look into logs, each with files of its own."""
_FILES_OF_PARTITION = 3
"""The last segment with its two indexes. Files that find no room are opened again for each use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFiles:
    """`limit` in each of so many processes, the supervisor included."""

    limit: int
    processes: int

    @property
    def besides(self) -> int:
        """Links, pipes, doorbells, listeners, locks: three to five for each other process, and some more."""
        return 64 + 6 * self.processes

    @property
    def connections(self) -> int:
        """What a network process has room for; less than one: none."""
        return self.limit - self.limit // _FILES_SHARE - self.besides

    @property
    def files_of_network(self) -> int:
        """Beside those of searches."""
        return max(1, self.limit // _FILES_SHARE - SEARCHES * self.files_of_search)

    @property
    def files_of_search(self) -> int:
        return max(4, min(64, self.limit // (2 * _FILES_SHARE * SEARCHES)))

    @property
    def files_of_worker(self) -> int:
        return max(16, self.limit - self.besides)

    @property
    def least(self) -> int:
        """The limit below which no broker of so many processes is any use."""
        return self._limit_for(FEWEST_CONNECTIONS)

    def wanted(self, *, networks: int, workers: int, connections: int, partitions: int) -> int:
        """The limit that is enough for all of that, shared out evenly."""
        for_files = self.besides + _FILES_OF_PARTITION * -(-partitions // workers)
        return max(self.least, for_files, self._limit_for(-(-connections // networks)))

    def _limit_for(self, connections: int) -> int:
        """The lowest that gives a network process so many."""
        return (connections + self.besides - 1) * _FILES_SHARE // (_FILES_SHARE - 1) + 1
