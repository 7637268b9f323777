"""`kafkad export`: export topics to tables (Parquet, Delta, Iceberg), each record once. `kafkad-export` is the same."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from kafkad.cli.errors import WrongConfiguration
from kafkad.cli.lazy_group import CommandGroup
from kafkad.cli.options import INT32_MAX, Seconds, json_option
from kafkad_lakehouse.cli.options import (
    SHARED_OPTIONS,
    Duration,
    OneTableCommand,
    Size,
    config_files_argument,
    damage_option,
    file_options,
    isolation_option,
    table_options,
    tables_of,
)

_OPTIONAL = ("pyarrow",)
MAX_JOBS = 1_024

_GROUP = """
Example:
  kafkad export run --topic orders --out /lake/orders
  kafkad export status --topic orders --out /lake/orders
"""


@click.group(cls=CommandGroup, epilog=_GROUP)
def export() -> None:
    """Export topics to tables: Parquet files, Delta or Iceberg, each record exactly once."""


_RUN = """Export the new records of a topic to its table, in one commit; of several topics, each to its own table.

The table has its own end offsets, so the command can be repeated, and killed, at any time: the table has each record
exactly once. Records of aborted transactions are omitted, and uncommitted records wait for a later run.

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


@export.command(help=_RUN, short_help="Export the new records of a topic to its table.")
@table_options
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Run in local processes, or in Spark.",
)
@click.option(
    "--start",
    default="earliest",
    show_default=True,
    metavar="WHEN",
    help="Where a new table begins: earliest, latest, a time (2026-01-31T12:00, UTC by default) or milliseconds since"
    " 1970.",
)
@click.option(
    "--end",
    default="latest",
    show_default=True,
    metavar="WHEN",
    help="Where this run ends: latest, a time or milliseconds since 1970.",
)
@click.option(
    "--partition-by",
    type=click.Choice(["none", "day", "hour"]),
    default="none",
    show_default=True,
    help="Folders by the records' timestamps, in UTC.",
)
@file_options
@isolation_option
@damage_option
@click.option(
    "--idle-after",
    type=Duration(),
    metavar="DURATION",
    help="For complete hours: treat a fully exported partition as complete up to now minus DURATION, instead of up to"
    " its newest record.",
)
@click.option(
    "--on-data-loss",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="If records were deleted before they were exported.",
)
@click.option(
    "--recreated",
    type=click.Choice(["fail", "append"]),
    default="fail",
    show_default=True,
    help="If the topic was deleted and created again.",
)
@click.option(
    "--keep",
    type=click.Choice(["all", "latest"]),
    default="all",
    show_default=True,
    help="Every record, or the latest of each key; a record without value deletes its key.",
)
@click.option(
    "--key",
    type=click.Choice(["raw", "string", "json", "avro"]),
    default="raw",
    show_default=True,
    help="Format of keys; other formats than raw add the column key_parsed.",
)
@click.option("--key-schema-file", type=click.Path(path_type=Path), metavar="FILE", help="JSON or Avro schema of keys.")
@click.option(
    "--key-schema-subject", default="", metavar="NAME", help="Subject of keys in the registry; default: TOPIC-key."
)
@click.option(
    "--value",
    type=click.Choice(["raw", "json", "avro", "protobuf"]),
    default="raw",
    show_default=True,
    help="Format of values; other formats than raw add the column value_parsed.",
)
@click.option(
    "--schema-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Schema of values: JSON Schema, Avro schema, or Protobuf descriptor set.",
)
@click.option("--schema-message", default="", metavar="NAME", help="The Protobuf message, if the file has several.")
@click.option(
    "--schema-registry",
    default="",
    metavar="URL",
    help="Address of the schema registry, for values (or keys) with schema ids; user:password in"
    " KAFKAD_SCHEMA_REGISTRY_AUTH.",
)
@click.option(
    "--schema-subject", default="", metavar="NAME", help="Subject of values in the registry; default: TOPIC-value."
)
@click.option(
    "--on-bad-record",
    type=click.Choice(["dlq", "fail", "null"]),
    help="If a key or value can't be parsed: write the record to the table DIR__dlq (default), stop, or set its column"
    " to null.",
)
@click.option(
    "--on-schema-change",
    type=click.Choice(["widen", "fail"]),
    default="widen",
    show_default=True,
    help="If the schema has new fields.",
)
@click.option(
    "--partitions",
    type=click.Choice(["all", "led"]),
    default="all",
    show_default=True,
    help="All partitions, or those with a leader on this machine, if each machine of a cluster runs the export.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, MAX_JOBS),
    help="Number of processes of the local engine (default: 1), or of cores of Spark (default: all).",
)
@click.option("--max-bytes-per-sec", type=Size(0), default=0, metavar="SIZE", help="Limit for reading.")
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
    help="Repeat the run every 5m, 90s or 1h until SIGTERM, and print a line for each run. Retry without a broker.",
)
@click.option("--dry-run", is_flag=True, help="Only print the plan.")
@json_option
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> None:
    _work().run(tables_of(ctx), **{name: options[name] for name in SHARED_OPTIONS})


_STATUS = """
\b
Example:
  kafkad export status --topic orders --out /lake/orders
  kafkad export status /etc/kafkad/export/*.toml
"""


@export.command(epilog=_STATUS)
@config_files_argument
@table_options
@isolation_option
@json_option
@click.pass_context
def status(ctx: click.Context, /, conf_files: Sequence[Path], **options: Any) -> None:
    """Print the end offsets and the lag of the table.

    With FILE, a file as for --conf-file, print a line for each of its tables. Exit code 1: the status of a table is not
    available. Exit code 3: records were deleted before they were exported; the next run stops there.
    """
    _work().status(tables_of(ctx), as_json=options["as_json"], is_list=bool(conf_files))


@export.command(
    cls=OneTableCommand,
    epilog="\b\nExample:\n  kafkad export verify --topic orders --out /lake/orders\n"
    "  kafkad export verify --topic orders --out /lake/orders --deep",
)
@table_options
@isolation_option
@damage_option
@click.option(
    "--deep", is_flag=True, help="Also compare key, value, headers and timestamp of each record, by checksums."
)
@json_option
def verify(**options: Any) -> None:
    """Compare the table with the log: the table must have each record exactly once. Exit code 1: they differ."""
    _work().verify(**options)


_MAINTAIN = """
\b
Example:
  kafkad export maintain --topic orders --out /lake/orders --older-than 86400
  kafkad export maintain --topic orders --out /lake/orders --target-file-size 512MiB --dry-run
  kafkad export maintain --topic orders --out /lake/orders --rebuild-log
"""


@export.command(cls=OneTableCommand, epilog=_MAINTAIN)
@table_options
@click.option(
    "--older-than",
    type=Seconds(0, INT32_MAX),
    default=86_400.0,
    show_default=True,
    metavar="SECONDS",
    help="Delete only files that were written or replaced longer ago. It must be longer than any run or maintain takes;"
    " use 0 only if no run or maintain is in progress.",
)
@file_options
@click.option("--dry-run", is_flag=True, help="Only print the deletions and merges.")
@click.option(
    "--rebuild-log",
    is_flag=True,
    help="Only rebuild the missing _kafkad_log of a Parquet table from its files.",
)
@json_option
def maintain(**options: Any) -> None:
    """Delete files of incomplete runs and replaced files; then merge small files.

    For a Parquet table, also write a checkpoint of its manifests, and remove manifests older than --older-than.
    """
    _work().maintain(**options)


@export.command(cls=OneTableCommand, epilog="\b\nExample:\n  kafkad export files --topic orders --out /lake/orders")
@table_options
@click.option("--dead-letters", is_flag=True, help="Print the files of the table of dead letters.")
def files(**options: Any) -> None:
    """Print exactly the files of the table, one on each line."""
    _work().files(**options)


def _work() -> ModuleType:
    """Imported on use: `kafkad export --help` needs no pyarrow."""
    try:
        return import_module("kafkad_lakehouse.cli.work")
    except ModuleNotFoundError as error:
        if error.name not in _OPTIONAL:
            raise
        raise WrongConfiguration([f"{error.name} is not installed: pip install 'kafkad[export]'"]) from error
