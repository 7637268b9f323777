"""`kafkad brokers end-session`: end the session of a crashed broker before its timeout.

The next start of the broker does the same; this command is for the time until then (ExecStopPost= of the unit).
"""

import os
from pathlib import Path

import click

from kafkad.adapters.files.log_directory import LogDirectoryUnusable, lock
from kafkad.adapters.stores.session_file import FILE_NAME, SessionFile
from kafkad.adapters.stores.zookeeper_store import ZookeeperUnreachable
from kafkad.cli.broker_options import CommandFailed
from kafkad.cli.configuring import configuration_arguments, configuration_from_arguments
from kafkad.config.entities.broker import ClusterConfig
from kafkad.core.coordination_store import CoordinationError, SessionLost
from kafkad.processes.controller.store.zookeeper_sessions import opened_store

CONNECT_S = 5.0
"""`ExecStopPost=` of the service runs this command: the restart waits for it."""


@click.command("end-session", epilog="\b\nExample:\n  kafkad brokers end-session server.properties")
@configuration_arguments
def end_session(file: str | None, overrides: tuple[str, ...]) -> None:
    """End the remaining ZooKeeper session of a crashed broker of this host.

    Other replicas then lead its partitions at once. Without a file: the system's server.properties if it exists, else
    the defaults. Exit code 1 if the broker is running, or ZooKeeper does not respond.
    """
    config = configuration_from_arguments(file, overrides)
    folder = Path(config.log_dirs.log_dirs[0])
    if config.cluster is None or not (folder / FILE_NAME).exists():
        click.echo("No session to end.")
        return
    try:
        descriptor = lock(folder)
    except LogDirectoryUnusable as error:
        raise CommandFailed(str(error)) from None
    try:
        click.echo(_end(config.cluster, SessionFile(folder, config.cluster.zookeeper_connect)))
    finally:
        os.close(descriptor)


def _end(cluster: ClusterConfig, file: SessionFile) -> str:
    """End the session. Returns the outcome in one line."""
    session = file.read()
    if session is None:
        return "No session to end."
    try:
        store = opened_store(cluster, session, within_s=CONNECT_S)
        store.close()
    except SessionLost:
        ending = f"Session {session[0]:#x} has already ended."
    except (ZookeeperUnreachable, CoordinationError) as error:
        raise CommandFailed(f"the session could not be ended and ends by its timeout: {error}") from None
    else:
        if store.is_left_open:
            raise CommandFailed("ZooKeeper does not respond: the session ends by its timeout")
        ending = f"Session {session[0]:#x} is ended."
    file.remove()
    return ending
