"""The options of `kafkad export` as what they ask for."""

from pathlib import Path
from typing import Any

from kafkad.cli.failing import WrongConfiguration
from kafkad.client.broker_client import parse_bootstrap
from kafkad.export.values.format import DEAD_LETTERS, FAIL, NULL, ValueFormat
from kafkad.export.wanted import KEEP_ALL, KEEP_LATEST, Wanted

NO_BROKER = "none"
_RAW = "raw"


def wanted_of(
    *,
    topic: str,
    out: str,
    format_: str,
    name: str | None,
    log_dirs: str,
    bootstrap: str,
    isolation: str = "read_committed",
    on_data_loss: str = "fail",
    recreated: str = "fail",
    target_file_size: int = 256 << 20,
    start: str = "earliest",
    end: str = "latest",
    value: str = _RAW,
    schema_file: Path | None = None,
    schema_message: str = "",
    schema_registry: str = "",
    schema_subject: str = "",
    on_bad_record: str | None = None,
    on_damage: str = FAIL,
    on_schema_change: str = "widen",
    keep: str = KEEP_ALL,
    idle_after: float | None = None,
    **rest: Any,
) -> Wanted:
    _check_spelling(start, end, out, format_, rest.get("catalog", ""), rest.get("table", ""))
    _check_are_used(value, schema_file, schema_registry, schema_subject, schema_message, on_bad_record)
    _check_kept(keep, value, on_bad_record, on_damage, recreated, rest.get("partition_by", "none"))
    subject = schema_subject or f"{topic}-value"
    return Wanted(
        topic=topic,
        bootstrap=_bootstrap(bootstrap),
        out=out,
        format=format_,
        name=name or topic,
        log_dirs=tuple(filter(None, log_dirs.split(","))),
        is_committed=isolation == "read_committed",
        skips_lost=on_data_loss == "skip",
        accepts_recreated=recreated == "append",
        target_file_bytes=target_file_size,
        start=start,
        end=end,
        values=_values(value, schema_file, schema_registry, subject, schema_message, on_bad_record),
        on_damage=on_damage,
        keeps=keep,
        idle_after_s=idle_after,
        may_widen=on_schema_change == "widen",
        **rest,
    )


def _check_spelling(start: str, end: str, out: str, format_: str, catalog: str, table: str) -> None:
    for option, when, words in (("start", start, ("earliest", "latest")), ("end", end, ("latest",))):
        if when not in words and not (when.isascii() and when.isdigit() and int(when) < 1 << 63):
            raise WrongConfiguration([f"--{option}: expected {' or '.join(words)} or milliseconds, found {when!r}"])
    if not out:
        raise WrongConfiguration(["--out: expected a folder or an address, found nothing"])
    if format_ != "iceberg" and (catalog or table):
        raise WrongConfiguration(["--catalog and --table are of --format iceberg"])
    if table and not all(table.rpartition(".")):
        raise WrongConfiguration([f"--table: expected NAMESPACE.NAME, found {table!r}"])


def _check_are_used(
    value: str, file: Path | None, registry: str, subject: str, message: str, on_bad_record: str | None
) -> None:
    """What is said of values means something only with others."""
    if value == _RAW and (file or registry or subject or message or on_bad_record in (NULL, DEAD_LETTERS)):
        raise WrongConfiguration(
            ["options of schemas, and --on-bad-record, need --value json, avro or protobuf; batches have --on-damage"]
        )
    if message and value != "protobuf":
        raise WrongConfiguration(["--schema-message is of --value protobuf"])
    if subject and not registry:
        raise WrongConfiguration(["--schema-subject is of --schema-registry"])


def _bootstrap(named: str) -> str:
    if named == NO_BROKER:
        return ""
    parse_bootstrap(named)
    return named


def _values(
    kind: str, file: Path | None, registry: str, subject: str, message: str, on_bad: str | None
) -> ValueFormat | None:
    if kind == _RAW:
        return None
    return ValueFormat(
        kind=kind,
        schema=_schema(kind, file, registry),
        message=message,
        registry=registry,
        subject=subject,
        on_bad=on_bad or DEAD_LETTERS,
    )


def _check_kept(
    keep: str, value: str, on_bad_record: str | None, on_damage: str, recreated: str, partition_by: str
) -> None:
    """What goes with a table whose rows are replaced."""
    if keep != KEEP_LATEST:
        return
    if on_bad_record == DEAD_LETTERS or (value != _RAW and on_bad_record is None):
        raise WrongConfiguration(["--keep latest has no dead letters: --on-bad-record null or fail"])
    if on_damage == DEAD_LETTERS:
        raise WrongConfiguration(["--keep latest has no dead letters: --on-damage skip or fail"])
    if recreated != "fail" or partition_by != "none":
        raise WrongConfiguration(["--keep latest excludes --recreated append and --partition-by"])


def _schema(value: str, file: Path | None, registry: str) -> bytes:
    if (file is None) == (registry == ""):
        raise WrongConfiguration([f"--value {value} needs either --schema-file or --schema-registry"])
    try:
        return b"" if file is None else file.read_bytes()
    except OSError as error:
        raise WrongConfiguration([f"--schema-file: {file} can't be read: {error.strerror}"]) from error
