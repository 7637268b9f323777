"""`kafkad stop`: end a broker of this host in order, as SIGTERM and Ctrl-C do.

It is found by its runtime directory, which names the log directory of its broker and is locked by its supervisor:
no list of processes is searched.
"""

import os
import select
import signal
from pathlib import Path

import click

from kafkad.adapters.files.runtime_directory import RunningBroker, running_brokers
from kafkad.cli.asking import CommandFailed
from kafkad.cli.configuring import configuration_from_arguments, configures


@click.command(epilog="\b\nExample:\n  kafkad stop\n  kafkad stop server.properties --no-wait")
@configures
@click.option("--no-wait", is_flag=True, help="Don't wait until the broker has ended.")
def stop(file: str | None, overrides: tuple[str, ...], no_wait: bool) -> None:
    """Stop the broker of this host that has the same log.dirs and kafkad.runtime.dir, in order.

    Without a file: the system's server.properties if it is there, else the defaults, as "kafkad start" reads them. In a
    cluster others lead before it stops. Of a unit use "systemctl stop". Ctrl-C ends the waiting alone.

    Exit code 0: it has stopped (with --no-wait: was told to); 1: no such broker runs, or it is another user's.
    """
    config = configuration_from_arguments(file, overrides)
    base, log_dir = Path(config.runtime.dir), Path(config.log_dirs.log_dirs[0]).resolve()
    running = running_brokers(base)
    broker = next((each for each in running if each.log_dir == log_dir), None)
    if broker is None:
        raise CommandFailed(_not_found(base, log_dir, running))
    try:
        process = os.pidfd_open(broker.pid)
        # What the descriptor stands for can't change any more: is it still this broker?
        if broker not in running_brokers(base):
            raise ProcessLookupError
        signal.pidfd_send_signal(process, signal.SIGTERM)
    except ProcessLookupError:
        click.echo(f"The broker with log.dirs={log_dir} has stopped by itself.")
        return
    except PermissionError:
        raise CommandFailed(f"the broker with log.dirs={log_dir} (pid {broker.pid}) is another user's") from None
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
    found = f"; log directories of those that run: {others}" if others else ""
    return f"no broker with log.dirs={log_dir} and kafkad.runtime.dir={base} runs here{found}"
