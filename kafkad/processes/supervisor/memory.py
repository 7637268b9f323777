"""Whether the limits of memory are enough for this configuration: a line with the number when they are not."""

import logging

from kafkad.adapters.operating_system.memory_limits import data_limit, group_limit
from kafkad.core.supervision.memory import recommended_memory, required_by_process

log = logging.getLogger(__name__)


def warn_of_little(processes: int, arena_bytes: int) -> None:
    """The kernel enforces them in mid-service: what a broker needs depends on what its clients send."""
    together, least = group_limit(), recommended_memory(processes=processes, arena_bytes=arena_bytes)
    if together is not None and together < least:
        log.warning(
            "the broker may use %d MB of memory (MemoryMax=, or that of its container): for %d processes and what "
            "clients send %d are better, the kernel ends processes that need more",
            *(together >> 20, processes, least >> 20),
        )
    each, least = data_limit(), required_by_process()
    if each is not None and each < least:
        log.warning(
            "each process may have %d MB of memory of its own (ulimit -d, LimitDATA=): %d are better, processes that "
            "get no more end and are started again",
            *(each >> 20, least >> 20),
        )
