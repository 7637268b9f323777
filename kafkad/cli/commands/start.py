"""`kafkad start`: a broker in the foreground."""

import sys

import click

from kafkad.cli.configuring import configures, file_or_default, parse_overrides, read_configuration
from kafkad.config import load
from kafkad.startup import start_broker


@click.command(
    epilog="\b\nExample:\n  kafkad start\n"
    "  kafkad start server.properties --override listeners=PLAINTEXT://127.0.0.1:9093"
)
@configures
def start(file: str | None, overrides: tuple[str, ...]) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    Without a file: the system's server.properties if it is there, else the defaults that
    etc/server.properties documents. A configuration that can't be used is exit code 2, one line for each
    reason. SIGHUP reads the file again; closing the terminal of a broker stops it.
    """
    path, pairs = file_or_default(file), parse_overrides(overrides)
    config = read_configuration(path, pairs)
    sys.exit(start_broker(config, reread=None if path is None else lambda: load(path, pairs)))
