"""Common options of the commands of `kafkad export`, and the types of their values."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from kafkad.cli.errors import WrongConfiguration
from kafkad.cli.options import DEFAULT_BOOTSTRAP, INT32_MAX, INT64_MAX, number_in, timeout_option

_MB = 1 << 20
_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": _MB, "gib": 1 << 30, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}
_COMMANDLINE = ParameterSource.COMMANDLINE
_TABLES = "kafkad_lakehouse.cli.tables"
"""The key in the context's `meta` for the options of each table in the files."""
SHARED_OPTIONS = ("engine", "jobs", "dry_run", "every", "as_json", "metrics_file")
"""Parameters of a run that are common to all tables."""
TOPIC = "{topic}"
"""The placeholder for the topic in --out and --table."""
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
        number = number_in(digits, INT64_MAX)
        size = None if number is None or unit not in _UNITS else number * _UNITS[unit]
        if size is None or not self._smallest <= size <= INT64_MAX:
            self.fail(f"expected a size such as 256MiB, found {value!r}", param, ctx)
        return size


class Duration(click.ParamType[float]):
    """90s, 5m, 1h, 1d or seconds."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip().lower()
        digits = text.rstrip("smhd")
        number = number_in(digits)
        seconds = (number or 0) * _SECONDS.get(text[len(digits) :], 0)
        if not 0 < seconds <= INT32_MAX:
            self.fail(f"expected a time such as 5m, found {value!r}", param, ctx)
        return float(seconds)


def _read_file(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    """Use the options of the file's first table as defaults."""
    if value is not None:
        _take_options(ctx, [value])


def _take_options(ctx: click.Context, files: Sequence[Path]) -> None:
    tables = ctx.meta[_TABLES] = [table for file in files for table in read_options(ctx, file)]
    ctx.default_map = {**(ctx.default_map or {}), **tables[0]}


def read_options(ctx: click.Context, file: Path) -> list[dict[str, Any]]:
    """The parameters of each table in the file: of [[tables]], or of the only table.

    One file serves all commands: each command ignores options of the other commands.
    """
    try:
        content = tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise WrongConfiguration([f"{file} can't be read: {error}"]) from error
    tables = content.pop("tables", [{}])
    if not isinstance(tables, list) or not tables or not all(isinstance(each, dict) for each in tables):
        raise WrongConfiguration([f"{file}: tables: expected [[tables]], found {tables}"])
    common = _parameters(ctx, file, content)
    found = [_parameters(ctx, file, each) for each in tables]
    for written, name in _options_of(ctx.command).items():
        if name in SHARED_OPTIONS and any(name in each for each in found):
            raise WrongConfiguration([f"{file}: {written} is an option of all tables: put it above [[tables]]"])
    return [{**common, **each} for each in found]


def _parameters(ctx: click.Context, file: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    own = _options_of(ctx.command)
    group = ctx.parent.command if ctx.parent is not None else None
    commands = group.commands.values() if isinstance(group, click.Group) else [ctx.command]
    known = {name for each in commands for name in _options_of(each)}
    found = {}
    for written, each in content.items():
        name = written.replace("_", "-")
        if name not in known:
            raise WrongConfiguration([f"{file}: {name} is not an option of kafkad export"])
        if not isinstance(each, str | int | float):
            raise WrongConfiguration([f"{file}: {name}: expected text, a number, true or false, found {each}"])
        if name in own:
            found[own[name]] = each
    return found


def _read_files(ctx: click.Context, param: click.Parameter, value: Sequence[Path]) -> Sequence[Path]:
    if value:
        _take_options(ctx, value)
    return value


config_files_argument = click.argument(
    "conf_files",
    nargs=-1,
    type=click.Path(path_type=Path),
    is_eager=True,
    callback=_read_files,
    metavar="[FILE]...",
)
"""Files like that of --conf-file, with further tables."""


def tables_of(ctx: click.Context) -> list[dict[str, Any]]:
    """The options of each table in the files, or of the only table. Options on the command line apply to all tables;
    --topic selects a table.
    """
    given = {name: each for name, each in ctx.params.items() if ctx.get_parameter_source(name) is _COMMANDLINE}
    if given.get("conf_files") and ctx.get_parameter_source("conf_file") is _COMMANDLINE:
        raise WrongConfiguration(["--conf-file and FILE exclude each other"])
    # --topic on the command line disables topic-pattern in a file, and the other way round.
    without = {"topic": "topic_pattern", "topic_pattern": "topic"}
    hidden = {without[name] for name in given if name in without} - given.keys()
    tables = ctx.meta.get(_TABLES, [{}])
    if len(tables) > 1 and "topic" in given:
        tables = [table for table in tables if _is_of(table, given["topic"])]
        if len(tables) != 1:
            raise WrongConfiguration([f"--topic: {len(tables)} tables have topic {given['topic']!r}"])
    found = []
    for table in tables:
        options = {**{name: each for name, each in table.items() if name not in hidden}, **given, "conf_files": ()}
        found.append(ctx.command.make_context(ctx.info_name, [], ctx.parent, default_map=options).params)
    return found


def _is_of(table: Mapping[str, Any], topic: str) -> bool:
    """Whether the table is for the topic, by its name or pattern."""
    names = [name.strip() for name in str(table.get("topic", "")).split(",")]
    return topic in names or ("topic_pattern" in table and matcher(str(table["topic_pattern"]))(topic))


def matcher(pattern: str) -> Callable[[str], bool]:
    """A function that tests whether a whole name matches. Raises `WrongConfiguration`."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise WrongConfiguration([f"--topic-pattern: {error}"]) from error
    return lambda name: compiled.fullmatch(name) is not None


class OneTableCommand(click.Command):
    """A command for exactly one table."""

    def invoke(self, ctx: click.Context) -> Any:
        tables = tables_of(ctx)
        topics = topics_of(tables[0])
        if len(tables) > 1 or topics is None or len(topics) > 1:
            raise WrongConfiguration([f"{ctx.info_name} needs one table: select it by --topic"])
        ctx.params = of_topic(tables[0], topics[0])
        return super().invoke(ctx)


def topics_of(options: Mapping[str, Any]) -> list[str] | None:
    """The names in --topic; None for a pattern."""
    if (options["topic"] is None) == (options["topic_pattern"] is None):
        raise WrongConfiguration(["expected either --topic or --topic-pattern"])
    if options["topic"] is None:
        return None
    names = [name.strip() for name in options["topic"].split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise WrongConfiguration([f"--topic: expected different names separated by commas, found {options['topic']!r}"])
    return names


def of_topic(options: Mapping[str, Any], topic: str) -> dict[str, Any]:
    """The options for the table of this topic."""
    found = {name: each for name, each in options.items() if name not in ("topic_pattern", "conf_files")}
    # Dots separate namespaces, so they are replaced in the name of the topic.
    table = options["table"].replace(TOPIC, topic.replace(".", "_"))
    return {**found, "topic": topic, "out": options["out"].replace(TOPIC, topic), "table": table}


def _options_of(command: click.Command) -> dict[str, str]:
    """The parameter of each option; the keys are names of options without dashes."""
    return {name.removeprefix("--"): each.name for each in command.params for name in each.opts if each.name}


_TABLE_OPTIONS = (
    click.option(
        "--conf-file",
        type=click.Path(path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_read_file,
        metavar="FILE",
        help="Read options from a TOML file; [[tables]] sets options for several tables.",
    ),
    click.option("--topic", metavar="TOPIC", help="Topic; several separated by commas if DIR has {topic}."),
    click.option(
        "--topic-pattern",
        metavar="REGEX",
        help="All topics whose whole name matches, except internal ones; DIR needs {topic}.",
    ),
    click.option(
        "--out",
        required=True,
        metavar="DIR|URL",
        help="Folder of the table, or s3://…, gs://…; {topic} is replaced by the name of the topic.",
    ),
    click.option(
        "--format",
        "format_",
        type=click.Choice(["parquet", "delta", "iceberg"]),
        default="parquet",
        show_default=True,
        help="Format of the table.",
    ),
    click.option(
        "--catalog",
        default="",
        metavar="URL|NAME",
        help="Iceberg catalog: sqlite:///…, http://… (REST), or a name that pyiceberg knows; default: a file in DIR.",
    ),
    click.option(
        "--table",
        default="",
        metavar="NAMESPACE.NAME",
        help="Name in the catalog; may have {topic}; default: kafkad.TOPIC.",
    ),
    click.option("--name", help="Name of the export, for its group kafkad-export-NAME; default: the topic."),
    click.option(
        "--bootstrap-server",
        "bootstrap",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        metavar="HOST:PORT",
        help="Bootstrap servers, separated by commas; none: use only --log-dirs.",
    ),
    click.option(
        "--source",
        type=click.Choice(["broker", "files"]),
        default="broker",
        show_default=True,
        help="Read from the broker, or from its segment files on this machine.",
    ),
    click.option("--log-dirs", metavar="DIR,DIR", default="", help="Log directories for --source files."),
    timeout_option(30.0),
)
"""The options of all commands that select tables and topics."""


def table_options(command: Command) -> Command:
    for option in reversed(_TABLE_OPTIONS):
        command = option(command)
    return command


def isolation_option(command: Command) -> Command:
    """The option `isolation`, which must be the same for all commands of a table."""
    isolation = click.option(
        "--isolation",
        type=click.Choice(["read_committed", "read_uncommitted"]),
        default="read_committed",
        show_default=True,
        help="read_committed omits records of open and aborted transactions.",
    )
    return isolation(command)


def damage_option(command: Command) -> Command:
    """The option `on_damage`; `verify` needs the value of the runs."""
    on_damage = click.option(
        "--on-damage",
        type=click.Choice(["fail", "dlq", "skip"]),
        default="fail",
        show_default=True,
        help="If a batch is damaged, or its records can't be read: stop, write its bytes to the table DIR__dlq, or skip"
        " and report it. Use the same value for run and verify.",
    )
    return on_damage(command)


def file_options(command: Command) -> Command:
    """The options `target_file_size` and `compression`."""
    size = click.option(
        "--target-file-size", type=Size(), default="256MiB", show_default=True, help="Approximate size of files."
    )
    compression = click.option(
        "--compression",
        type=click.Choice(["zstd", "snappy", "lz4", "gzip", "none"]),
        default="zstd",
        show_default=True,
        help="Codec of files.",
    )
    return size(compression(command))
