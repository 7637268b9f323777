"""`kafkad export`: topics into tables of Parquet files or Delta, each record once. `kafkad-export` is the same."""

import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import click

from kafkad.cli.asking import DEFAULT_BOOTSTRAP
from kafkad.cli.configuring import WrongConfiguration
from kafkad.cli.options import json_option

_MB = 1 << 20
_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": _MB, "gib": 1 << 30, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_OPTIONAL = ("pyarrow",)

Command = TypeVar("Command", bound=Callable[..., Any])


class _Size(click.ParamType[int]):
    """256MiB, 64MB or bytes."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip().lower()
        digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
        unit = text[len(digits) :].strip()
        if not digits.isascii() or not digits.isdigit() or unit not in _UNITS:
            self.fail(f"expected a size such as 256MiB, found {value!r}", param, ctx)
        return int(digits) * _UNITS[unit]


class _Duration(click.ParamType[float]):
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
    if value is None:
        return
    try:
        content = tomllib.loads(value.read_text())
    except (OSError, ValueError) as error:
        raise WrongConfiguration([f"{value} can't be read: {error}"]) from error
    known = {option.name for option in ctx.command.params}
    defaults = {name.replace("-", "_"): each for name, each in content.items()}
    defaults = {_PARAMETERS.get(name, name): each for name, each in defaults.items()}
    for name in defaults:
        if name not in known:
            raise WrongConfiguration([f"{value}: {name.replace('_', '-')} is no option of this command"])
    ctx.default_map = {**(ctx.default_map or {}), **defaults}


_PARAMETERS = {"bootstrap_server": "bootstrap", "json": "as_json", "timeout": "timeout_s"}


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
        type=click.Choice(["parquet", "delta"]),
        default="parquet",
        show_default=True,
        help="The kind of table.",
    ),
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


def _names_table(command: Command) -> Command:
    for option in reversed(_TABLE_OPTIONS):
        command = option(command)
    return command


_GROUP = """
Example:
  kafkad export run --topic orders --out /lake/orders
  kafkad export status --topic orders --out /lake/orders
"""


@click.group(epilog=_GROUP)
def export() -> None:
    """Bring topics into tables: Parquet files or Delta, each record once."""


_RUN = """Bring what is new in a topic into its table, in one commit.

The table itself says up to where it goes: the command may be run again at any time, by hand, by cron or a timer, and
killed at any time; no record is in the table twice, and none is left out. Records of aborted transactions are left
out, and what is not yet committed waits for the next run.

\b
Example:
  kafkad export run --topic orders --out /lake/orders
  kafkad export run --topic orders --out /lake/orders --partition-by day --source files
  kafkad export run --topic orders --out /lake/orders --source files --log-dirs /backup --bootstrap-server none
  kafkad export run --topic orders --out s3://lake/orders --format delta --jobs 4
  kafkad export run --topic orders --out /lake/orders --dry-run
  kafkad export run --topic orders --out /lake/orders --every 5m
  spark-submit spark/export.py --conf-file orders.toml
"""


@export.command(help=_RUN, short_help="Bring what is new in a topic into its table.")
@_names_table
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where the work is done: in processes here, or in Spark.",
)
@click.option(
    "--start",
    default="earliest",
    show_default=True,
    metavar="WHEN",
    help="Where a new table begins: earliest, latest or milliseconds since 1970.",
)
@click.option("--end", default="latest", show_default=True, metavar="WHEN", help="Up to where: latest or milliseconds.")
@click.option(
    "--partition-by",
    type=click.Choice(["none", "day", "hour"]),
    default="none",
    show_default=True,
    help="Folders by the records' timestamps, in UTC.",
)
@click.option(
    "--target-file-size", type=_Size(), default="256MiB", show_default=True, help="Files are about this large."
)
@click.option(
    "--compression",
    type=click.Choice(["zstd", "snappy", "lz4", "gzip", "none"]),
    default="zstd",
    show_default=True,
    help="Of the files.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="Whether records of open and aborted transactions are left out.",
)
@click.option(
    "--on-data-loss",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="When records were deleted before they were exported.",
)
@click.option(
    "--recreated",
    type=click.Choice(["fail", "append"]),
    default="fail",
    show_default=True,
    help="When the topic was deleted and made again.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes of the local engine.")
@click.option("--max-bytes-per-sec", type=_Size(), default=0, metavar="SIZE", help="Read no faster than that.")
@click.option(
    "--metrics-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the result for Prometheus' node exporter (textfile collector).",
)
@click.option(
    "--every",
    type=_Duration(),
    metavar="DURATION",
    help="Go on: a run each 5m, 90s or 1h, with a line for each, until SIGTERM. A broker that is away is waited for.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be exported.")
@json_option
def run(**asked: Any) -> None:
    _work().run(**asked)


@export.command(epilog="\b\nExample:\n  kafkad export status --topic orders --out /lake/orders")
@_names_table
@json_option
def status(**asked: Any) -> None:
    """Print up to where the table goes, and how much the topic has beyond that."""
    _work().status(**asked)


@export.command(epilog="\b\nExample:\n  kafkad export verify --topic orders --out /lake/orders")
@_names_table
@json_option
def verify(**asked: Any) -> None:
    """Compare the table with the log: each record once, none too many. Exit code 1: they differ."""
    _work().verify(**asked)


@export.command(epilog="\b\nExample:\n  kafkad export maintain --topic orders --out /lake/orders --older-than 86400")
@_names_table
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=86_400.0,
    show_default=True,
    metavar="SECONDS",
    help="Only files that were written before that: a run may be under way.",
)
@json_option
def maintain(**asked: Any) -> None:
    """Delete files that were written by runs which did not end."""
    _work().maintain(**asked)


@export.command(epilog="\b\nExample:\n  kafkad export files --topic orders --out /lake/orders")
@_names_table
def files(**asked: Any) -> None:
    """Print the files of the table, one on a line: these and no others belong to it."""
    _work().files(**asked)


def _work() -> ModuleType:
    """Imported when it is used: `kafkad export --help` needs no pyarrow."""
    try:
        return import_module("kafkad.cli.exporting")
    except ModuleNotFoundError as error:
        if error.name not in _OPTIONAL:
            raise
        raise WrongConfiguration([f"{error.name} is not installed: pip install 'kafkad[export]'"]) from error
