"""`kafkad check-config`: check a configuration without starting a broker."""

import json
import sys

import click

from kafkad.banner import advertised_text
from kafkad.cli.configuring import configuration_arguments, configuration_from_arguments
from kafkad.cli.errors import WrongConfiguration
from kafkad.cli.options import json_option
from kafkad.config import BrokerConfig


@click.command(
    "check-config",
    epilog="\b\nExample:\n  kafkad check-config server.properties\n"
    "  kafkad check-config --override listeners=PLAINTEXT://:9092 --json",
)
@configuration_arguments
@json_option
def check_config(file: str | None, overrides: tuple[str, ...], as_json: bool) -> None:
    """Check a configuration: print invalid options, options without effect, and the resulting settings.

    Without a file: the system's server.properties if it exists, else the defaults. Exit code 2 if a broker would not
    start with it.
    """
    try:
        config = configuration_from_arguments(file, overrides)
    except WrongConfiguration as wrong:
        if not as_json:
            raise
        click.echo(json.dumps({"ok": False, "problems": wrong.lines}))
        sys.exit(wrong.exit_code)
    if as_json:
        click.echo(json.dumps(_as_json(config)))
        return
    for notice in config.notices:
        click.echo(notice)
    for listener in config.network.listeners:
        advertised = advertised_text(listener, listener.port)
        click.echo(f"listens on {listener.endpoint} ({listener.name}), advertises {advertised}")
    click.echo(f"data in {', '.join(config.log_dirs.log_dirs)}")
    click.echo("The configuration is valid.")


def _as_json(config: BrokerConfig) -> dict[str, object]:
    return {
        "ok": True,
        "problems": [],
        "notices": config.notices,
        "node_id": config.node_id,
        "listeners": [
            {
                "name": listener.name,
                "listens_on": str(listener.endpoint),
                "advertises": str(listener.advertised) if listener.advertised else None,
            }
            for listener in config.network.listeners
        ],
        "log_dirs": config.log_dirs.log_dirs,
    }
