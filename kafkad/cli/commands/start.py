"""`kafkad start`: run a broker in the foreground."""

import sys

import click

from kafkad.adapters.files.log_directory import LogDirectoryUnusable
from kafkad.adapters.stores.zookeeper_tls import UnusableTlsFile
from kafkad.cli.configuring import (
    configuration_arguments,
    file_or_default,
    parse_overrides,
    read_configuration,
)
from kafkad.cli.errors import WrongConfiguration
from kafkad.config import load
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.processes.controller.broker_id import find_broker_id
from kafkad.processes.controller.store.zookeeper_sessions import zookeeper_tls
from kafkad.startup import start_broker


@click.command(
    epilog="\b\nExample:\n  kafkad start\n"
    "  kafkad start server.properties --override listeners=PLAINTEXT://127.0.0.1:9093"
)
@configuration_arguments
def start(file: str | None, overrides: tuple[str, ...]) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    Without a file: the system's server.properties if it exists, else the defaults in etc/server.properties. An invalid
    configuration is exit code 2, with one line for each reason. SIGHUP reloads the file; closing the terminal of a
    broker stops it.
    """
    path, pairs = file_or_default(file), parse_overrides(overrides)
    config = read_configuration(path, pairs)
    try:
        if config.cluster is not None:
            zookeeper_tls(config.cluster)
        found_id = find_broker_id(config)
    except (LogDirectoryUnusable, UnusableMetadata, UnusableTlsFile) as error:
        raise WrongConfiguration([str(error)]) from None
    if found_id is not None:
        config = read_configuration(path, pairs, found_id=found_id)
    reread = None if path is None else lambda: load(path, pairs, found_id=found_id)
    sys.exit(start_broker(config, reread=reread))
