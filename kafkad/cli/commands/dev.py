"""`kafkad dev`: a temporary broker, for a terminal or for a test.

The folder with all its data is removed when the broker has stopped: after Ctrl-C, SIGTERM or a failed start, and with
--parent also after the end of the parent process.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

import click

from kafkad.adapters.links.free_port import LOOPBACK, free_port
from kafkad.adapters.links.messaging import RuntimePathTooLong, check_runtime_path
from kafkad.adapters.operating_system.parent_watch import stop_with_parent
from kafkad.banner import Ready, banner
from kafkad.cli.configuring import override_option, parse_overrides, read_configuration
from kafkad.cli.options import INT32, json_option
from kafkad.standard_streams import print_lines
from kafkad.startup import start_broker

FOLDER_PREFIX = "kafkad-dev-"
LONGEST_RUNTIME_NAME = "kafkad-xxxxxxxx"
LEAST_FREE_BYTES = 16 << 20


@click.command(epilog="\b\nExample:\n  kafkad dev\n  kafkad dev --port 9092 --override auto.create.topics.enable=false")
@click.option("--port", type=click.IntRange(1, 65535), help="Default: a free port.")
@click.option("--folder", hidden=True, help="An empty folder to use and to remove at exit.")
@click.option("--parent", "parent_pid", type=INT32, hidden=True, help="Stop when this parent process ends.")
@override_option
@json_option
def dev(
    port: int | None, folder: str | None, parent_pid: int | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    """Run a temporary broker on a free port, with its data in a temporary folder.

    The command prints port and folder, and removes the folder at exit. With --json the first line is an object with
    `bootstrap` and `log_dir`, printed when the broker is ready.
    """
    # Before the folder exists: from here on SIGTERM raises SystemExit, so that the folder is always removed.
    signal.signal(signal.SIGTERM, _unwind)
    own_pid = os.getpid()
    home = folder if folder is not None else tempfile.mkdtemp(prefix=FOLDER_PREFIX)
    try:
        if parent_pid is not None:
            stop_with_parent(parent_pid)
        settings = _settings(home, port if port is not None else free_port())
        config = read_configuration(None, [*settings, *parse_overrides(overrides)])
        sys.exit(start_broker(config, _announce_json if as_json else _announce))
    finally:
        # A forked child that reaches this by mistake must not remove the folder.
        if os.getpid() == own_pid:
            shutil.rmtree(home, ignore_errors=True)


def _settings(home: str, port: int) -> list[tuple[str, str]]:
    """The options of a temporary broker; overrides on the command line take precedence."""
    return [
        ("listeners", f"PLAINTEXT://{LOOPBACK}:{port}"),
        ("log.dirs", f"{home}/data"),
        *_runtime_dir(Path(home)),
        # As few processes as possible, for a fast start and stop, also with many brokers at once.
        ("num.network.threads", "1"),
        ("num.io.threads", "1"),
        # A group with one consumer does not wait for a second one.
        ("group.initial.rebalance.delay.ms", "0"),
        ("group.consumer.assignment.interval.ms", "0"),
        # On a nearly full disk, produce requests would wait for free space until they time out.
        ("kafkad.log.dirs.min.free.bytes", str(LEAST_FREE_BYTES)),
        # In tests several such brokers run at the same time: none may use a well-known port.
        ("kafkad.metrics.listener", ""),
    ]


def _runtime_dir(home: Path) -> list[tuple[str, str]]:
    """A folder below `home` if its path is short enough for sockets, else the default folder."""
    try:
        check_runtime_path(home / LONGEST_RUNTIME_NAME)
    except RuntimePathTooLong:
        return []
    return [("kafkad.runtime.dir", str(home))]


def _announce(ready: Ready) -> None:
    print_lines(f"{banner(ready)}\n  the folder is removed at exit", sys.stdout)


def _announce_json(ready: Ready) -> None:
    facts = {"bootstrap": ready.bootstrap, "log_dir": ready.config.log_dirs.log_dirs[0]}
    print_lines(json.dumps(facts), sys.stdout)


def _unwind(signal_number: int, frame: FrameType | None) -> None:
    sys.exit(128 + signal_number)
