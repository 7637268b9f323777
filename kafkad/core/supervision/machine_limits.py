"""The limits of the machine that are enough for a broker: open files and memory.

The limit of open files applies to each process (RLIMIT_NOFILE). A network process uses most for client sockets, a
worker for segment files; both reserve some for the links and locks of every process.

The memory that clients can make a broker use is bounded: the requests and replies of all connections together. Under a
lower limit the kernel kills processes, or allocations fail, when clients send much.
"""

from dataclasses import dataclass

FEWEST_CONNECTIONS = 16
"""A network process with fewer connections is useless."""
USUAL_CONNECTIONS = 1000
"""The connections that a broker should be able to serve, unless max.connections is lower."""
_FILES_SHARE = 4
"""The divisor for a network process's descriptors of segment files."""
SEARCHES = 4
"""Threads of a network process that search logs, each with its own open files."""
_FILES_OF_PARTITION = 3
"""The last segment with its two indexes. Files beyond the limit are opened for each use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFiles:
    """`limit` is for each of `processes`, including the supervisor."""

    limit: int
    processes: int

    @property
    def besides(self) -> int:
        """Links, pipes, doorbells, listeners, locks: three to five for each other process, and some more."""
        return 64 + 6 * self.processes

    @property
    def connections(self) -> int:
        """The connections of a network process; less than one: the limit is too low for any."""
        return self.limit - self.limit // _FILES_SHARE - self.besides

    @property
    def files_of_network(self) -> int:
        """The segment files of a network process, besides those of searches."""
        return max(1, self.limit // _FILES_SHARE - SEARCHES * self.files_of_search)

    @property
    def files_of_search(self) -> int:
        return max(4, min(64, self.limit // (2 * _FILES_SHARE * SEARCHES)))

    @property
    def files_of_worker(self) -> int:
        return max(16, self.limit - self.besides)

    @property
    def least(self) -> int:
        """The limit below which a broker with this number of processes is useless."""
        return self._limit_for(FEWEST_CONNECTIONS)

    def recommended_limit(self, *, networks: int, workers: int, connections: int, partitions: int) -> int:
        """The limit that is enough for all of these, divided evenly."""
        for_files = self.besides + _FILES_OF_PARTITION * -(-partitions // workers)
        return max(self.least, for_files, self._limit_for(-(-connections // networks)))

    def _limit_for(self, connections: int) -> int:
        """The lowest limit that allows a network process this number of connections."""
        return (connections + self.besides - 1) * _FILES_SHARE // (_FILES_SHARE - 1) + 1


_MB = 1024 * 1024
_FOR_CLIENTS = 200 * _MB
"""The memory that clients can make a process use besides the arena."""
_RESIDENT = 20 * _MB
"""The resident memory of an idle process, with its share of shared memory."""
_MAPPED = 80 * _MB
"""The private mappings of an idle process, including the stacks of its threads."""


def recommended_memory(*, processes: int, arena_bytes: int) -> int:
    """The bytes for all `processes` together; `arena_bytes` is the size of all arenas."""
    return processes * _RESIDENT + arena_bytes + _FOR_CLIENTS


def required_by_process() -> int:
    """The bytes for each process alone."""
    return _MAPPED + _FOR_CLIENTS
