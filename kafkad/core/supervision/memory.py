"""Which limit of memory is enough for a broker?

What clients can make it hold is bounded: the requests and replies of all connections together. Under a limit below that
the kernel ends processes, or gives them no memory, when somebody sends much.
"""

_MB = 1024 * 1024
_FOR_CLIENTS = 200 * _MB
"""What clients can make a process hold beside the arena."""
_RESIDENT = 20 * _MB
"""What a process has in memory at rest, with its part of what is shared."""
_MAPPED = 80 * _MB
"""What a process has mapped for itself at rest, the stacks of its threads included."""


def wanted(*, processes: int, arena_bytes: int) -> int:
    """The bytes for all `processes` together; `arena_bytes` are those of all arenas."""
    return processes * _RESIDENT + arena_bytes + _FOR_CLIENTS


def needed_by_process() -> int:
    """The bytes for each process alone."""
    return _MAPPED + _FOR_CLIENTS
