"""`kafkad dump-log`: show and check the files of a log directory.

Prints text in the layout of Kafka's DumpLogSegments, or one JSON object a line. Exit code 1 if a check failed, 2 for
unreadable files. `kafkad.core.log.reading.dump` has the checks, `kafkad.cli.dumping` the kinds of files.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from kafkad.cli.adoption.found_partitions import opened
from kafkad.cli.dumping.file_kinds import Content, explain, explain_directory, kind_of
from kafkad.cli.dumping.internal_records import DECODERS, Decoder, decoded
from kafkad.core.controller.startup.reconciliation import parse_directory
from kafkad.core.log.reading.dump import (
    Found,
    Line,
    Problem,
    Source,
    dump_epochs,
    dump_offset_index,
    dump_offsets,
    dump_partition_metadata,
    dump_snapshot,
    dump_text,
    dump_time_index,
    dump_txn_index,
)
from kafkad.core.log.reading.dump import dump_log as dump_segment

_LINES_AT_ONCE = 500
_OPTIONAL_LONGS = ("deleteHorizonMs", "currentTxnFirstOffset")
_ENTRIES = ("index", "timeindex")

_HELP = """Show, explain and check the files of a partition or of a log directory.

Of a directory every file is shown: batches, indexes, producers, epochs, checkpoints. --records decodes the records of
__consumer_offsets, __transaction_state and __cluster_metadata; the three decoder options do so for files in other
directories. Nothing is changed. Incomplete writes of a running broker look like damage.

\b
Example:
  kafkad dump-log --print-data-log data/orders-0/00000000000000000000.log
  kafkad dump-log --records data/__consumer_offsets-7
  kafkad dump-log --verify-index-only data
"""


class _Escapes(dict[int, str]):
    """A table for `str.translate`, which is a hundred times faster than a loop."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        shown = character if character.isprintable() else character.encode("unicode_escape").decode()
        self[code] = shown
        return shown


_ESCAPES = _Escapes()


class _Output:
    """Buffers lines: a million records are a million lines."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def line(self, text: str) -> None:
        self._lines.append(text)
        if len(self._lines) >= _LINES_AT_ONCE:
            self.flush()

    def problem(self, text: str) -> None:
        """Print a problem on stderr, after the buffered lines."""
        self.flush()
        click.echo(text, err=True)

    def flush(self) -> None:
        if self._lines:
            click.echo("\n".join(self._lines))
            self._lines.clear()


class UnknownFile(Exception):
    """No file of a log directory of Apache Kafka or kafkad has this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options of the command. `decoder`: for the records of all files."""

    deep: bool
    with_data: bool
    quiet: bool
    as_json: bool
    decoder: Decoder | None

    def decoder_of(self, directory: Path) -> Decoder | None:
        partition = parse_directory(directory.absolute().name)
        return self.decoder or (DECODERS.get(partition.topic) if partition else None)


@click.command("dump-log", help=_HELP, short_help="Show and check the files of a partition or log directory.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--deep-iteration", is_flag=True, help="Show the records in each batch, without their data.")
@click.option("--records", "--print-data-log", "print_data", is_flag=True, help="Show keys and values too.")
@click.option("--verify-index-only", is_flag=True, help="Check indexes without showing their entries.")
@click.option("--offsets-decoder", is_flag=True, help="The records are those of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="The records are those of __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="The records are those of __cluster_metadata.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on each line.")
def dump_log(
    paths: tuple[Path, ...],
    deep_iteration: bool,
    print_data: bool,
    verify_index_only: bool,
    offsets_decoder: bool,
    transaction_log_decoder: bool,
    cluster_metadata_decoder: bool,
    as_json: bool,
) -> None:
    """See `_HELP`."""
    decoder_flags = (offsets_decoder, transaction_log_decoder, cluster_metadata_decoder)
    if sum(decoder_flags) > 1:
        raise click.UsageError("only one decoder can be used at a time")
    options = _Options(
        deep=deep_iteration,
        # As with Kafka's tool, a decoder shows the records.
        with_data=print_data or any(decoder_flags),
        quiet=verify_index_only,
        as_json=as_json,
        decoder=next((decoder for decoder, is_on in zip(DECODERS.values(), decoder_flags, strict=True) if is_on), None),
    )
    exit_code = 0
    unknown: list[tuple[Path, UnknownFile]] = []
    for path in paths:
        try:
            exit_code |= _dump_directory(path, options) if path.is_dir() else _dump_file(path, options)
        except UnknownFile as error:
            unknown.append((path, error))
        except (FileNotFoundError, PermissionError) as error:
            raise click.UsageError(f"{path}: {error}") from error
    if len(unknown) == len(paths):
        raise click.UsageError("{}: {}".format(*unknown[0]))
    for path, reason in unknown:
        # A pattern such as data/orders-0/* may match unknown files.
        click.echo(f"{path} is ignored: {reason}", err=True)
    if exit_code:
        raise click.exceptions.Exit(exit_code)


def _dump_directory(path: Path, options: _Options) -> int:
    """Print a partition's directory, or a log directory with all partitions; 1 if a check failed."""
    entries = sorted(path.iterdir())
    partitions = [each for each in entries if each.is_dir() and explain_directory(each.name)]
    is_partition = bool(explain_directory(path.absolute().name))
    files = [each for each in entries if each.is_file()]
    if not (is_partition or partitions or any(kind_of(each) for each in files)):
        raise UnknownFile("it has no files of a partition or log directory")
    _explain(path, explain_directory(path.absolute().name) or f"{len(partitions)} partition director(ies)", options)
    exit_code = 0
    for file in files:
        found = kind_of(file)
        if found is None:
            click.echo(f"{file} is ignored: no file of Apache Kafka or kafkad has this name", err=True)
            continue
        _explain(file, explain(*found), options)
        exit_code |= _dump_file(file, options, is_explained=True)
    for partition in partitions:
        exit_code |= _dump_directory(partition, options)
    return exit_code


def _explain(path: Path, explanation: str, options: _Options) -> None:
    if options.as_json:
        click.echo(json.dumps({"file": str(path), "kind": "file", "explanation": explanation}))
    else:
        click.echo(f"Dumping {path} ({explanation})")


def _dump_file(path: Path, options: _Options, *, is_explained: bool = False) -> int:
    """Print one file; 1 if a check failed. In a directory an index without its log is a problem."""
    if not options.as_json and not is_explained:
        click.echo(f"Dumping {path}")
    decoder = options.decoder_of(path.parent)
    exit_code = 0
    output = _Output()
    try:
        with opened(path) as source:
            for item in _contents(path, source, options, may_lack_log=is_explained):
                if isinstance(item, Problem):
                    exit_code = 1
                elif options.quiet and item.kind in _ENTRIES:
                    continue
                elif item.kind == "record" and options.with_data and decoder is not None:
                    item = _decoded(item, decoder)
                _show(output, path, item, options.as_json)
    finally:
        output.flush()
    return exit_code


def _contents(path: Path, source: Source, options: _Options, *, may_lack_log: bool) -> Found:
    found = kind_of(path)
    if found is None:
        raise UnknownFile("expected a file of a partition (a segment, an index, a snapshot) or of a log directory")
    kind, match = found
    base_offset = int(match.groupdict().get("base") or 0)
    match kind.content:
        case Content.SEGMENT:
            if kind.name == ".log":
                yield Line(kind="log", fields={"Log starting offset": base_offset})
            yield from dump_segment(source, base_offset, deep=options.deep, with_data=options.with_data)
        case Content.OFFSET_INDEX | Content.TIME_INDEX:
            log_path = path.with_name(path.name.replace(kind.name, ".log", 1))
            if may_lack_log and not log_path.exists():
                yield Problem(message=f"there is no {log_path.name}: a start removes it")
                return
            check = dump_offset_index if kind.content is Content.OFFSET_INDEX else dump_time_index
            with opened(log_path) as log:
                yield from check(source, log, base_offset)
        case Content.OPAQUE:
            return
        case _:
            yield from _READERS[kind.content](source)


_READERS = {
    Content.TXN_INDEX: dump_txn_index,
    Content.PRODUCERS: dump_snapshot,
    Content.EPOCHS: dump_epochs,
    Content.OFFSETS: dump_offsets,
    Content.TOPIC_ID: dump_partition_metadata,
    Content.TEXT: dump_text,
}


def _decoded(item: Line, decoder: Decoder) -> Line:
    if "endTxnMarker" in item.fields:
        return item
    fields = dict(item.fields)
    key, value = fields.pop("key", None), fields.pop("payload", None)
    return replace(item, fields={**fields, "record": decoded(decoder, key, value)})


def _show(output: _Output, path: Path, item: Line | Problem, as_json: bool) -> None:
    if as_json:
        facts = {"problem": item.message} if isinstance(item, Problem) else {"kind": item.kind, **item.fields}
        output.line(json.dumps({"file": str(path), **facts}, default=_printable))
    elif isinstance(item, Problem):
        output.problem(f"{path.name}: {item.message}")
    elif item.kind == "empty":
        output.line(f"{path} is empty.")
    elif item.kind == "gap":
        output.line(f"Non-consecutive offsets: {item.fields['offset']} is followed by {item.fields['next']}")
    elif item.kind == "text":
        output.line(_escape(item.fields["text"]))
    else:
        prefix = "| " if item.kind == "record" else ""
        output.line(prefix + " ".join(f"{name}: {_text(name, value)}" for name, value in item.fields.items()))


def _text(name: str, value: Any) -> str:
    if name in _OPTIONAL_LONGS:
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return _escape(json.dumps(value, ensure_ascii=False))
    if isinstance(value, list):
        return f"[{','.join(_escape(key) for key in value)}]"
    if isinstance(value, bytes):
        return _escape(value.decode("utf-8", "backslashreplace"))
    return str(value)


def _escape(text: str) -> str:
    """One line without control characters, which could move the terminal's cursor."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def _printable(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    raise TypeError(f"no JSON for {type(value).__name__}")
