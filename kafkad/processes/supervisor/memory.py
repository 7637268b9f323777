"""A warning with a recommended value when the memory limits are too low for this configuration."""

import logging

from kafkad.adapters.operating_system.memory_limits import data_limit, group_limit
from kafkad.core.supervision.machine_limits import recommended_memory, required_by_process

log = logging.getLogger(__name__)


def warn_of_little(processes: int, arena_bytes: int) -> None:
    """A warning only: the memory that a broker requires depends on its clients, and the kernel enforces limits late."""
    together, least = group_limit(), recommended_memory(processes=processes, arena_bytes=arena_bytes)
    if together is not None and together < least:
        log.warning(
            "memory limit of the broker is %d MB (MemoryMax=, or its container's): at least %d MB are recommended for "
            "%d processes, otherwise the kernel may kill processes",
            *(together >> 20, least >> 20, processes),
        )
    each, least = data_limit(), required_by_process()
    if each is not None and each < least:
        log.warning(
            "memory limit of each process is %d MB (ulimit -d, LimitDATA=): at least %d MB are recommended, otherwise "
            "processes may exit and be restarted",
            *(each >> 20, least >> 20),
        )
