"""`kafkad export`: topics into tables (Parquet, Delta, Iceberg), each record once. `kafkad-export` is the same."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from kafkad.cli.exporting.options import (
    OF_ALL_TABLES,
    Duration,
    OneTableCommand,
    Size,
    meets_damage,
    names_table,
    names_tables,
    reads_topic,
    tables_of,
    writes_files,
)
from kafkad.cli.failing import WrongConfiguration
from kafkad.cli.lazy_group import CommandGroup
from kafkad.cli.options import INT32_MAX, Seconds, json_option

_OPTIONAL = ("pyarrow",)
MOST_JOBS = 1_024

_GROUP = """
Example:
  kafkad export run --topic orders --out /lake/orders
  kafkad export status --topic orders --out /lake/orders
"""


@click.group(cls=CommandGroup, epilog=_GROUP)
def export() -> None:
    """Bring topics into tables: Parquet files, Delta or Iceberg, each record once."""


_RUN = """Bring what is new in a topic into its table, in one commit; of several topics, each into its own.

The table itself says up to where it goes: the command may be run again at any time, by hand, by cron or a timer, and
killed at any time; no record is in the table twice, and none is left out. Records of aborted transactions are left
out, and what is not yet committed waits for the next run.

\b
Example:
  kafkad export run --topic orders --out /lake/orders
  kafkad export run --topic orders --out /lake/orders --partition-by day --source files
  kafkad export run --topic orders --out /lake/orders --source files --log-dirs /backup --bootstrap-server none
  kafkad export run --topic orders --out s3://lake/orders --format delta --jobs 4
  kafkad export run --topic orders --out /lake/orders --value avro --schema-registry http://127.0.0.1:8081
  kafkad export run --topic users --out /lake/users --format delta --keep latest
  kafkad export run --topic orders --out /lake/orders --dry-run
  kafkad export run --topic orders --out /lake/orders --every 5m
  kafkad export run --topic-pattern 'shop\\..*' --out '/lake/{topic}'
  spark-submit spark/export.py --conf-file orders.toml
"""


@export.command(help=_RUN, short_help="Bring what is new in a topic into its table.")
@names_table
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
    help="Where a new table begins: earliest, latest, a time (2026-01-31T12:00, in UTC unless it says where) or"
    " milliseconds since 1970.",
)
@click.option(
    "--end", default="latest", show_default=True, metavar="WHEN", help="Up to where: latest, a time or milliseconds."
)
@click.option(
    "--partition-by",
    type=click.Choice(["none", "day", "hour"]),
    default="none",
    show_default=True,
    help="Folders by the records' timestamps, in UTC.",
)
@writes_files
@reads_topic
@meets_damage
@click.option(
    "--idle-after",
    type=Duration(),
    metavar="DURATION",
    help="For the marker of complete hours: a partition that is exported to its end is complete up to so long ago,"
    " instead of up to its newest record.",
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
@click.option(
    "--keep",
    type=click.Choice(["all", "latest"]),
    default="all",
    show_default=True,
    help="Every record; or the latest of each key, where one without value deletes its key.",
)
@click.option(
    "--key",
    type=click.Choice(["raw", "string", "json", "avro"]),
    default="raw",
    show_default=True,
    help="What keys are; other than raw, the text or the fields become the column key_parsed.",
)
@click.option(
    "--key-schema-file", type=click.Path(path_type=Path), metavar="FILE", help="Of keys: a JSON or an Avro schema."
)
@click.option("--key-schema-subject", default="", metavar="NAME", help="In the registry; default: TOPIC-key.")
@click.option(
    "--value",
    type=click.Choice(["raw", "json", "avro", "protobuf"]),
    default="raw",
    show_default=True,
    help="What values are; other than raw, their fields become the column value_parsed.",
)
@click.option(
    "--schema-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Of values: a JSON Schema, an Avro schema, or a descriptor set of Protobuf.",
)
@click.option("--schema-message", default="", metavar="NAME", help="The Protobuf message, where there are several.")
@click.option(
    "--schema-registry",
    default="",
    metavar="URL",
    help="Where schemas are, if values (or keys) begin with the id of theirs; user:password in"
    " KAFKAD_SCHEMA_REGISTRY_AUTH.",
)
@click.option("--schema-subject", default="", metavar="NAME", help="In the registry; default: TOPIC-value.")
@click.option(
    "--on-bad-record",
    type=click.Choice(["dlq", "fail", "null"]),
    help="When a key or value can't be parsed: into the table DIR__dlq (default), stop, or null in its column.",
)
@click.option(
    "--on-schema-change",
    type=click.Choice(["widen", "fail"]),
    default="widen",
    show_default=True,
    help="When the schema has new fields.",
)
@click.option(
    "--partitions",
    type=click.Choice(["all", "led"]),
    default="all",
    show_default=True,
    help="All; or those whose leader is a broker of this machine, where each machine of a cluster runs the export.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, MOST_JOBS),
    help="How much is done at once: processes of the local engine (default: 1), or cores of Spark (default: all).",
)
@click.option("--max-bytes-per-sec", type=Size(0), default=0, metavar="SIZE", help="Read no faster than that.")
@click.option(
    "--metrics-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the result for Prometheus' node exporter (textfile collector).",
)
@click.option(
    "--every",
    type=Duration(),
    metavar="DURATION",
    help="Go on: a run each 5m, 90s or 1h, with a line for each, until SIGTERM. A broker that is away is waited for.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be exported.")
@json_option
@click.pass_context
def run(ctx: click.Context, /, **asked: Any) -> None:
    _work().run(tables_of(ctx), **{name: asked[name] for name in OF_ALL_TABLES})


_STATUS = """
\b
Example:
  kafkad export status --topic orders --out /lake/orders
  kafkad export status /etc/kafkad/export/*.toml
"""


@export.command(epilog=_STATUS)
@names_tables
@names_table
@reads_topic
@json_option
@click.pass_context
def status(ctx: click.Context, /, conf_files: Sequence[Path], **asked: Any) -> None:
    """Print up to where the table goes, and how much the topic has beyond that.

    Each FILE is one as for --conf-file, with tables of its own: a line for each. Exit code 1: of one of them it can't
    be said. Exit code 3: records were deleted before they were exported, at which the next run stops.
    """
    _work().status(tables_of(ctx), as_json=asked["as_json"], is_list=bool(conf_files))


@export.command(
    cls=OneTableCommand,
    epilog="\b\nExample:\n  kafkad export verify --topic orders --out /lake/orders\n"
    "  kafkad export verify --topic orders --out /lake/orders --deep"
)
@names_table
@reads_topic
@meets_damage
@click.option("--deep", is_flag=True, help="Also compare key, value, headers and time of each record, by checksums.")
@json_option
def verify(**asked: Any) -> None:
    """Compare the table with the log: each record once, none too many. Exit code 1: they differ."""
    _work().verify(**asked)


_MAINTAIN = """
\b
Example:
  kafkad export maintain --topic orders --out /lake/orders --older-than 86400
  kafkad export maintain --topic orders --out /lake/orders --target-file-size 512MiB --dry-run
  kafkad export maintain --topic orders --out /lake/orders --rebuild-log
"""


@export.command(cls=OneTableCommand, epilog=_MAINTAIN)
@names_table
@click.option(
    "--older-than",
    type=Seconds(0, INT32_MAX),
    default=86_400.0,
    show_default=True,
    metavar="SECONDS",
    help="Delete only what was written or replaced before that. It has to be longer than any run or maintain takes;"
    " 0 only where no other one is under way.",
)
@writes_files
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted and merged.")
@click.option(
    "--rebuild-log",
    is_flag=True,
    help="Of a Parquet table whose _kafkad_log is gone: make it anew from the files. Nothing else is done.",
)
@json_option
def maintain(**asked: Any) -> None:
    """Delete files of runs which did not end and files that were replaced; then merge small files.

    The manifests of a Parquet table are summed up, and removed when --older-than has passed.
    """
    _work().maintain(**asked)


@export.command(cls=OneTableCommand, epilog="\b\nExample:\n  kafkad export files --topic orders --out /lake/orders")
@names_table
@click.option("--dead-letters", is_flag=True, help="Of the table of records that could not be parsed.")
def files(**asked: Any) -> None:
    """Print the files of the table, one on a line: these and no others belong to it."""
    _work().files(**asked)


def _work() -> ModuleType:
    """Imported when it is used: `kafkad export --help` needs no pyarrow."""
    try:
        return import_module("kafkad.cli.exporting.work")
    except ModuleNotFoundError as error:
        if error.name not in _OPTIONAL:
            raise
        raise WrongConfiguration([f"{error.name} is not installed: pip install 'kafkad[export]'"]) from error
