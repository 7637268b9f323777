"""The memory limit that is enough for a broker.

The memory that clients can make it use is bounded: the requests and replies of all connections together. Under a lower
limit the kernel kills processes, or allocations fail, when clients send much.
"""

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
