"""`kafkad dump-log`: shows what is in the files of a partition directory and whether they agree.

Text in the layout of Kafka's DumpLogSegments, or one JSON object a line. Exit code 1 when a check failed, 2 for files
that it can't read. `kafkad.core.log.reading.dump` decides what is checked.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from kafkad.core.log.reading.dump import Found, Line, Problem, Source, dump_epochs, dump_snapshot, dump_txn_index
from kafkad.core.log.reading.dump import dump_log as dump_segment
from kafkad.core.log.reading.dump_indexes import dump_offset_index, dump_time_index

_SEGMENT_FILE = re.compile(
    r"(?P<base>\d{20})\.(?P<kind>log|index|timeindex|txnindex|snapshot)(\.deleted|\.swap|\.cleaned)?"
)
_EPOCHS = "leader-epoch-checkpoint"
_OPTIONAL_LONGS = ("deleteHorizonMs", "currentTxnFirstOffset")

_HELP = """Show batches, records, indexes, producer snapshots and leader epochs of log files, and check them.

\b
Example:
  kafkad dump-log --print-data-log data/orders-0/00000000000000000000.log
  kafkad dump-log --verify-index-only data/orders-0/*.index data/orders-0/*.timeindex
"""


class UnknownFile(Exception):
    """The name is not one that Kafka gives to a file of a partition."""


@click.command("dump-log", help=_HELP, short_help="Show and check the files of a partition.")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--deep-iteration", is_flag=True, help="Show the records in each batch, without their data.")
@click.option("--records", "--print-data-log", "print_data", is_flag=True, help="Show keys and values too.")
@click.option("--verify-index-only", is_flag=True, help="Check indexes without showing their entries.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def dump_log(
    files: tuple[Path, ...], deep_iteration: bool, print_data: bool, verify_index_only: bool, as_json: bool
) -> None:
    """See `_HELP`."""
    exit_code = 0
    unknown: list[UnknownFile] = []
    for path in files:
        if not as_json:
            click.echo(f"Dumping {path}")
        try:
            exit_code |= _dump_file(
                path, deep=deep_iteration, with_data=print_data, quiet=verify_index_only, as_json=as_json
            )
        except UnknownFile as error:
            # data/orders-0/* matches such files too; the others are meant.
            click.echo(f"{path} is ignored: {error}", err=True)
            unknown.append(error)
        except (FileNotFoundError, PermissionError) as error:
            raise click.UsageError(f"{path}: {error}") from error
    if len(unknown) == len(files):
        raise click.UsageError(str(unknown[0]))
    if exit_code:
        raise click.exceptions.Exit(exit_code)


def _dump_file(path: Path, *, deep: bool, with_data: bool, quiet: bool, as_json: bool) -> int:
    """Print one file; 1 if a check failed."""
    exit_code = 0
    with _opened(path) as source:
        found = _contents(path, source, deep=deep, with_data=with_data)
        for item in found:
            if isinstance(item, Problem):
                exit_code = 1
            elif quiet and item.kind in ("index", "timeindex"):
                continue
            _show(path, item, as_json)
    return exit_code


def _contents(path: Path, source: Source, *, deep: bool, with_data: bool) -> Found:
    if path.name == _EPOCHS:
        yield from dump_epochs(source)
        return
    match = _SEGMENT_FILE.fullmatch(path.name)
    if match is None:
        raise UnknownFile("expected a segment, an index, a snapshot or leader-epoch-checkpoint")
    base_offset = int(match["base"])
    if match["kind"] == "log":
        yield Line(kind="log", fields={"Log starting offset": base_offset})
        yield from dump_segment(source, base_offset, deep=deep, with_data=with_data)
    elif match["kind"] == "snapshot":
        yield from dump_snapshot(source)
    elif match["kind"] == "txnindex":
        yield from dump_txn_index(source)
    else:
        log_path = path.with_name(path.name.replace(f".{match['kind']}", ".log"))
        check = dump_offset_index if match["kind"] == "index" else dump_time_index
        with _opened(log_path) as log:
            yield from check(source, log, base_offset)


@contextmanager
def _opened(path: Path) -> Iterator[Source]:
    # Read, not mapped: a file that a running broker truncates must not kill the tool.
    with path.open("rb") as file:
        descriptor = file.fileno()
        yield Source(
            name=path.name,
            size=os.fstat(descriptor).st_size,
            read_at=lambda size, position: os.pread(descriptor, size, position),
        )


def _show(path: Path, item: Line | Problem, as_json: bool) -> None:
    if as_json:
        facts = {"problem": item.message} if isinstance(item, Problem) else {"kind": item.kind, **item.fields}
        click.echo(json.dumps({"file": str(path), **facts}, default=_printable))
    elif isinstance(item, Problem):
        click.echo(f"{path.name}: {item.message}", err=True)
    elif item.kind == "empty":
        click.echo(f"{path} is empty.")
    elif item.kind == "gap":
        click.echo(f"Non-consecutive offsets: {item.fields['offset']} is followed by {item.fields['next']}")
    else:
        prefix = "| " if item.kind == "record" else ""
        click.echo(prefix + " ".join(f"{name}: {_text(name, value)}" for name, value in item.fields.items()))


def _text(name: str, value: Any) -> str:
    if name in _OPTIONAL_LONGS:
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(_escape(key) for key in value)}]"
    if isinstance(value, bytes):
        return _escape(value.decode("utf-8", "backslashreplace"))
    return str(value)


def _escape(text: str) -> str:
    """One line without control characters, which could move the terminal's cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _printable(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    raise TypeError(f"no JSON for {type(value).__name__}")
