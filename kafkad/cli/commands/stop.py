"""`kafkad stop`: stop a broker of this host cleanly, as SIGTERM and Ctrl-C do.

The command finds the broker by its runtime directory, which its supervisor locks and which has the path of its log
directory. It does not search processes.
"""

import os
import select
import signal
from pathlib import Path

import click

from kafkad.adapters.files.runtime_directory import RunningBroker, running_brokers
from kafkad.cli.broker_options import CommandFailed
from kafkad.cli.configuring import configuration_arguments, configuration_from_arguments


@click.command(epilog="\b\nExample:\n  kafkad stop\n  kafkad stop server.properties --no-wait")
@configuration_arguments
@click.option("--no-wait", is_flag=True, help="Don't wait until the broker has exited.")
def stop(file: str | None, overrides: tuple[str, ...], no_wait: bool) -> None:
    """Cleanly stop the broker of this host with the same log.dirs and kafkad.runtime.dir.

    Without a file: the system's server.properties if it exists, else the defaults, as for "kafkad start". In a cluster,
    other replicas lead before the broker stops. For a systemd unit use "systemctl stop". Ctrl-C ends the wait, not the
    stop.

    Exit code 0: the broker has stopped (with --no-wait: is stopping); 1: no such broker is running, or it belongs to
    another user.
    """
    config = configuration_from_arguments(file, overrides)
    base, log_dir = Path(config.runtime.dir), Path(config.log_dirs.log_dirs[0]).resolve()
    running = running_brokers(base)
    broker = next((each for each in running if each.log_dir == log_dir), None)
    if broker is None:
        raise CommandFailed(_not_found(base, log_dir, running))
    try:
        process = os.pidfd_open(broker.pid)
        # The descriptor always refers to the same process: check that this process still is the broker.
        if broker not in running_brokers(base):
            raise ProcessLookupError
        signal.pidfd_send_signal(process, signal.SIGTERM)
    except ProcessLookupError:
        click.echo(f"The broker with log.dirs={log_dir} has already stopped.")
        return
    except PermissionError:
        raise CommandFailed(f"the broker with log.dirs={log_dir} (pid {broker.pid}) belongs to another user") from None
    if no_wait:
        click.echo(f"The broker with log.dirs={log_dir} (pid {broker.pid}) is stopping.")
        return
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll()
    os.close(process)
    click.echo(f"The broker with log.dirs={log_dir} (pid {broker.pid}) has stopped.")


def _not_found(base: Path, log_dir: Path, running: list[RunningBroker]) -> str:
    others = ", ".join(f"{each.log_dir} (pid {each.pid})" for each in running)
    found = f"; log directories of running brokers: {others}" if others else ""
    return f"no broker with log.dirs={log_dir} and kafkad.runtime.dir={base} is running on this host{found}"
