"""`kafkad plugins`: show the plugins of a broker with this configuration, and install and remove plugins."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from kafkad.cli.configuring import configuration_arguments, configuration_from_arguments
from kafkad.cli.errors import WrongConfiguration
from kafkad.cli.options import json_option
from kafkad.cli.package_installer import install_package
from kafkad.cli.plugin_folder import NotInstalled, PluginFolder
from kafkad.config.locations import default_plugins_dir
from kafkad.plugin_discovery import PluginFailed
from kafkad.plugin_loading import LoadedPlugin, RegisteredObject, load


@click.group(epilog="\b\nExample:\n  kafkad plugins list")
def plugins() -> None:
    """Show, install and remove plugins."""


Command = TypeVar("Command", bound=Callable[..., object])
_RESTART = "The broker uses this change from its next start on"


def in_folder(command: Command) -> Command:
    """The option --folder."""
    option = click.option(
        "--folder", metavar="FOLDER", help="Default: kafkad.plugins.dir of the system's configuration."
    )
    return option(command)


@plugins.command(
    epilog="\b\nExample:\n  kafkad plugins install my-plugin\n"
    "  kafkad plugins install ./my_plugin-1.0-py3-none-any.whl\n"
    "  kafkad plugins install my_plugin.py",
)
@click.argument("what", metavar="PACKAGE|WHEEL|FILE.py")
@in_folder
def install(what: str, folder: str | None) -> None:
    """Install a plugin in the plugins folder, and replace an older version.

    A package is installed with the dependencies that kafkad does not have. A package that needs another version of a
    dependency of kafkad is rejected, and so is a plugin with which no broker could start. Upgrades of kafkad do not
    change the folder.
    """
    target = _folder(folder)
    try:
        if what.endswith(".py"):
            target.install_file(Path(what))
            click.echo(f"installed {target.path / Path(what).name}")
        else:
            package = install_package(what, target)
            names = ", ".join(package.plugins)
            click.echo(f"installed {package.name} {package.version} with {names} in {target.package(package.name)}")
    except NotInstalled as rejection:
        raise WrongConfiguration([f"{what} is not installed: {rejection}"]) from None
    except OSError as error:
        raise WrongConfiguration([f"{what} is not installed: {error.filename}: {error.strerror}"]) from None
    click.echo(_next_start(target))


@plugins.command(epilog="\b\nExample:\n  kafkad plugins remove my_plugin")
@click.argument("name")
@in_folder
def remove(name: str, folder: str | None) -> None:
    """Remove a plugin from the plugins folder: NAME is its file, its package, or its own name."""
    target = _folder(folder)
    try:
        click.echo(f"removed {target.remove(name)}")
    except NotInstalled as rejection:
        raise WrongConfiguration([str(rejection)]) from None
    except OSError as error:
        raise WrongConfiguration([f"{name} is not removed: {error.filename}: {error.strerror}"]) from None
    click.echo(_next_start(target))


def _next_start(folder: PluginFolder) -> str:
    """The next step; for the service of the Debian package, the command."""
    is_packages = str(folder.path) == default_plugins_dir(os.environ)
    return f"{_RESTART}: systemctl restart kafkad" if is_packages else f"{_RESTART}."


def _folder(named: str | None) -> PluginFolder:
    """The folder --folder, else the configured folder, else the folder of the Debian package, which may not exist."""
    if named:
        return PluginFolder(Path(named))
    config = configuration_from_arguments(None, ())
    path = config.plugins.dir or default_plugins_dir(os.environ)
    if not path:
        raise WrongConfiguration(["no plugins folder is configured: set kafkad.plugins.dir, or use --folder"])
    return PluginFolder(Path(path), blocked=config.plugins.blocked, settings=config.texts.static)


@plugins.command(
    "list",
    epilog="\b\nExample:\n  kafkad plugins list\n  kafkad plugins list server.properties --json",
)
@configuration_arguments
@in_folder
@json_option
def list_plugins(file: str | None, overrides: tuple[str, ...], folder: str | None, as_json: bool) -> None:
    """Load every plugin and show its source and the objects that it registers.

    The configuration has the plugins folder, unless --folder is given. Exit code 2 if a plugin can't be loaded and a
    broker would not start.
    """
    config = configuration_from_arguments(file, overrides)
    chosen = config.plugins
    try:
        loaded = load(
            directory=folder or chosen.dir,
            enabled=folder is not None or chosen.enabled,
            blocked=chosen.blocked,
            settings=config.texts.static,
        ).loaded
    except PluginFailed as failed:
        raise WrongConfiguration([str(failed)]) from None
    if as_json:
        click.echo(json.dumps([_as_json(plugin) for plugin in loaded]))
        return
    width = max(len(plugin.name) for plugin in loaded)
    for plugin in loaded:
        click.echo(f"{plugin.name:{width}}  {plugin.version or '-'}  {plugin.source}{_blocked(plugin)}")
        for registered in plugin.objects:
            click.echo(f"{'':{width}}  {_described(registered)}")


def _blocked(plugin: LoadedPlugin) -> str:
    return " (blocked)" if plugin.is_blocked else ""


def _described(registered: RegisteredObject) -> str:
    replaced = f" (not used because of plugin {registered.replaced_by})" if registered.replaced_by else ""
    return f"{registered.kind} {registered.name}{replaced}"


def _as_json(plugin: LoadedPlugin) -> dict[str, object]:
    return {
        "name": plugin.name,
        "version": plugin.version,
        "source": plugin.source,
        "blocked": plugin.is_blocked,
        "hooks": plugin.hooks,
        "objects": [{"kind": each.kind, "name": each.name, "replaced_by": each.replaced_by} for each in plugin.objects],
    }
