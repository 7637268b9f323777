"""Whether the limit of open files is enough for this configuration: a line with the number when it is not."""

import logging
from collections.abc import Sequence

from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.config import BrokerConfig
from kafkad.core.ports import StorageFailed
from kafkad.core.supervision.open_files import USUAL_CONNECTIONS, OpenFiles

log = logging.getLogger(__name__)

_HOW = "(ulimit -n, LimitNOFILE=)"


def refusal(open_files: OpenFiles) -> str | None:
    if open_files.limit >= open_files.least:
        return None
    return (
        f"each process may have {open_files.limit} files open {_HOW}, and a broker of {open_files.processes} "
        f"processes needs at least {open_files.least}"
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
            "each process may have %d files open %s: for %d processes, %d partitions and %d connections %d are better",
            *(open_files.limit, _HOW, open_files.processes, partitions, connections, recommended),
        )


def _partitions(directory: LogDirectory) -> int:
    if not directory.is_online:
        return 0
    try:
        return sum(1 for _ in directory.partitions())
    except StorageFailed:
        # The reader of its content reports the error.
        return 0
