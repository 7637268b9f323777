"""What a machine must have for this configuration: a supported architecture, open files, memory.

An error is one line; limits that are too low for this configuration are warnings with a recommended value.
"""

import logging
from collections.abc import Sequence

from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.adapters.operating_system.process_limits import data_limit, group_limit
from kafkad.config import BrokerConfig
from kafkad.core.ports import StorageFailed
from kafkad.core.supervision.machine_limits import USUAL_CONNECTIONS, OpenFiles, recommended_memory, required_by_process

log = logging.getLogger(__name__)

_SUPPORTED = ("x86_64", "amd64", "i686")
"""Names of uname(2); linux32(8) gives the last one on the same processors."""


def unsupported_machine(machine: str) -> str | None:
    """The error as one line, or None if the machine is supported. `machine` is the output of `uname -m`."""
    if machine in _SUPPORTED:
        return None
    return (
        f"unsupported architecture {machine}: kafkad requires x86-64, because its processes share memory without locks "
        "and rely on the memory order of that architecture"
    )


_HOW = "(ulimit -n, LimitNOFILE=)"


def too_few_open_files(open_files: OpenFiles) -> str | None:
    """The error as one line; None if the broker can start with this limit."""
    if open_files.limit >= open_files.least:
        return None
    return (
        f"limit of open files is {open_files.limit} for each process {_HOW}, a broker of {open_files.processes} "
        f"processes requires at least {open_files.least}"
    )


def warn_of_few_open_files(open_files: OpenFiles, config: BrokerConfig, directories: Sequence[LogDirectory]) -> None:
    network = config.network
    connections = min(network.max_connections, USUAL_CONNECTIONS)
    partitions = sum(map(_partitions, directories))
    recommended = open_files.recommended_limit(
        networks=network.num_network_threads,
        workers=network.num_io_threads,
        connections=connections,
        partitions=partitions,
    )
    if open_files.limit < recommended:
        log.warning(
            "limit of open files is %d for each process %s: at least %d are recommended for %d processes, "
            "%d partitions and %d connections",
            *(open_files.limit, _HOW, recommended, open_files.processes, partitions, connections),
        )


def _partitions(directory: LogDirectory) -> int:
    if not directory.is_online:
        return 0
    try:
        return sum(1 for _ in directory.partitions())
    except StorageFailed:
        # The controller reports the error when it reads the directory.
        return 0


def warn_of_little_memory(processes: int, arena_bytes: int) -> None:
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
