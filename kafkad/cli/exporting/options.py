"""Options that all commands of `kafkad export` have, and the types of their values."""

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from kafkad.cli.failing import WrongConfiguration
from kafkad.cli.options import DEFAULT_BOOTSTRAP

_MB = 1 << 20
_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": _MB, "gib": 1 << 30, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}
_COMMANDLINE = ParameterSource.COMMANDLINE
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}

Command = TypeVar("Command", bound=Callable[..., Any])


class Size(click.ParamType[int]):
    """256MiB, 64MB or bytes."""

    name = "SIZE"

    def __init__(self, smallest: int = 1) -> None:
        self._smallest = smallest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip().lower()
        digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
        unit = text[len(digits) :].strip()
        if not digits.isascii() or not digits.isdigit() or unit not in _UNITS or int(digits) < self._smallest:
            self.fail(f"expected a size such as 256MiB, found {value!r}", param, ctx)
        return int(digits) * _UNITS[unit]


class Duration(click.ParamType[float]):
    """90s, 5m, 1h, 1d or seconds."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip().lower()
        digits = text.rstrip("smhd")
        if not digits.isascii() or not digits.isdigit() or text[len(digits) :] not in _SECONDS or int(digits) == 0:
            self.fail(f"expected a time such as 5m, found {value!r}", param, ctx)
        return float(int(digits) * _SECONDS[text[len(digits) :]])


def _read_file(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    """What the file says stands in for options that are not given."""
    if value is not None:
        ctx.default_map = {**(ctx.default_map or {}), **read_options(ctx, value)}


def read_options(ctx: click.Context, file: Path) -> dict[str, Any]:
    """What the file says, by the parameters of the command. One file serves all commands: each takes from it what it
    has options for.
    """
    try:
        content = tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise WrongConfiguration([f"{file} can't be read: {error}"]) from error
    own = _options_of(ctx.command)
    group = ctx.parent.command if ctx.parent is not None else None
    commands = group.commands.values() if isinstance(group, click.Group) else [ctx.command]
    known = {name for each in commands for name in _options_of(each)}
    defaults = {}
    for written, each in content.items():
        name = written.replace("_", "-")
        if name not in known:
            raise WrongConfiguration([f"{file}: {name} is no option of kafkad export"])
        if not isinstance(each, str | int | float):
            raise WrongConfiguration([f"{file}: {name}: expected text, a number, true or false, found {each}"])
        if name in own:
            defaults[own[name]] = each
    return defaults


def _read_first(ctx: click.Context, param: click.Parameter, value: Sequence[Path]) -> Sequence[Path]:
    """The others are read by `tables_of`, with what is given beside them."""
    for file in value[:1]:
        _read_file(ctx, param, file)
    return value


names_tables = click.argument(
    "conf_files",
    nargs=-1,
    type=click.Path(path_type=Path),
    is_eager=True,
    callback=_read_first,
    metavar="[FILE]...",
)
"""Files as for --conf-file, each with a table of its own."""


def tables_of(ctx: click.Context, conf_files: Sequence[Path]) -> list[dict[str, Any]]:
    """What is asked of the table of each file: options that are given count for all of them."""
    given = {name: each for name, each in ctx.params.items() if ctx.get_parameter_source(name) is _COMMANDLINE}
    if ctx.get_parameter_source("conf_file") is _COMMANDLINE:
        raise WrongConfiguration(["--conf-file and FILE exclude each other"])
    found = []
    for file in conf_files:
        options = {**read_options(ctx, file), **given, "conf_files": ()}
        found.append(ctx.command.make_context(ctx.info_name, [], ctx.parent, default_map=options).params)
    return found


def _options_of(command: click.Command) -> dict[str, str]:
    """As they are written, without dashes, and the parameter of each."""
    return {name.removeprefix("--"): each.name for each in command.params for name in each.opts if each.name}


_TABLE_OPTIONS = (
    click.option(
        "--conf-file",
        type=click.Path(path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_read_file,
        metavar="FILE",
        help="Options from a TOML file, by their names.",
    ),
    click.option("--topic", required=True, metavar="TOPIC", help="The topic."),
    click.option("--out", required=True, metavar="DIR|URL", help="The folder of the table, or s3://…, gs://…"),
    click.option(
        "--format",
        "format_",
        type=click.Choice(["parquet", "delta", "iceberg"]),
        default="parquet",
        show_default=True,
        help="The kind of table.",
    ),
    click.option(
        "--catalog",
        default="",
        metavar="URL|NAME",
        help="Of Iceberg: sqlite:///…, http://… (REST), or one that pyiceberg knows; default: a file in DIR.",
    ),
    click.option("--table", default="", metavar="NAMESPACE.NAME", help="In the catalog; default: kafkad.TOPIC."),
    click.option("--name", help="The name of the export, for its group kafkad-export-NAME; default: the topic's."),
    click.option(
        "--bootstrap-server",
        "bootstrap",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        metavar="HOST:PORT",
        help="The broker to ask; several with commas. none: --log-dirs has it all.",
    ),
    click.option(
        "--source",
        type=click.Choice(["broker", "files"]),
        default="broker",
        show_default=True,
        help="Read through the broker, or its segment files on this machine.",
    ),
    click.option("--log-dirs", metavar="DIR,DIR", default="", help="With --source files: where to look."),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0.1),
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for an answer.",
    ),
)
"""With these every command names a table and its topic."""


def names_table(command: Command) -> Command:
    for option in reversed(_TABLE_OPTIONS):
        command = option(command)
    return command


def reads_topic(command: Command) -> Command:
    """`isolation`: the same for the run, and for what is said of its table."""
    isolation = click.option(
        "--isolation",
        type=click.Choice(["read_committed", "read_uncommitted"]),
        default="read_committed",
        show_default=True,
        help="Whether records of open and aborted transactions are left out.",
    )
    return isolation(command)


def meets_damage(command: Command) -> Command:
    """`on_damage`: `verify` has to know what runs have left out."""
    on_damage = click.option(
        "--on-damage",
        type=click.Choice(["fail", "dlq", "skip"]),
        default="fail",
        show_default=True,
        help="When a batch is damaged, or its records can't be read: stop, its bytes into the table DIR__dlq, or leave"
        " it out and say so. The same for run and verify.",
    )
    return on_damage(command)


def writes_files(command: Command) -> Command:
    """`target_file_size` and `compression`."""
    size = click.option(
        "--target-file-size", type=Size(), default="256MiB", show_default=True, help="Files are about this large."
    )
    compression = click.option(
        "--compression",
        type=click.Choice(["zstd", "snappy", "lz4", "gzip", "none"]),
        default="zstd",
        show_default=True,
        help="Of the files.",
    )
    return size(compression(command))
