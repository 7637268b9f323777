"""An error or a warning with a recommended value when the limit of open files is too low for this configuration."""

import logging
from collections.abc import Sequence

from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.config import BrokerConfig
from kafkad.core.ports import StorageFailed
from kafkad.core.supervision.machine_limits import USUAL_CONNECTIONS, OpenFiles

log = logging.getLogger(__name__)

_HOW = "(ulimit -n, LimitNOFILE=)"


def too_few_open_files(open_files: OpenFiles) -> str | None:
    """The error as one line; None if the broker can start with this limit."""
    if open_files.limit >= open_files.least:
        return None
    return (
        f"limit of open files is {open_files.limit} for each process {_HOW}, a broker of {open_files.processes} "
        f"processes requires at least {open_files.least}"
    )


def warn_of_few(open_files: OpenFiles, config: BrokerConfig, directories: Sequence[LogDirectory]) -> None:
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
