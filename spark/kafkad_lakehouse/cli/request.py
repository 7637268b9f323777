"""Convert the options of `kafkad export` to an `ExportRequest`."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kafkad.cli.errors import WrongConfiguration
from kafkad.cli.options import INT64_MAX, iso_milliseconds, number_in
from kafkad.client.broker_client import parse_bootstrap
from kafkad_lakehouse.cli.formats import formats_of
from kafkad_lakehouse.export.request import KEEP_ALL, KEEP_LATEST, ExportRequest
from kafkad_lakehouse.export.values.format import DEAD_LETTERS, FAIL, ValueFormat

NO_BROKER = "none"


def request_of(
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
    on_bad_record: str | None = None,
    on_damage: str = FAIL,
    on_schema_change: str = "widen",
    keep: str = KEEP_ALL,
    idle_after: float | None = None,
    **rest: Any,
) -> ExportRequest:
    _check_spelling(out, format_, rest.get("catalog", ""), rest.get("table", ""))
    formats, rest = formats_of(topic, on_bad_record, **rest)
    _check_kept(keep, formats, on_bad_record, on_damage, recreated, rest.get("partition_by", "none"))
    return ExportRequest(
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
        start=_when("--start", start, "earliest", "latest"),
        end=_when("--end", end, "latest"),
        formats=formats,
        on_damage=on_damage,
        keeps=keep,
        idle_after_s=idle_after,
        may_widen=on_schema_change == "widen",
        **rest,
    )


def _when(option: str, text: str, *words: str) -> str:
    """One of the words, or milliseconds since 1970; ISO times always fit into 64 bits."""
    if text in words:
        return text
    with suppress(ValueError, OverflowError):
        time_ms = number_in(text, INT64_MAX)
        if time_ms is None:
            time_ms = iso_milliseconds(text)
        if time_ms >= 0:
            return str(time_ms)
    known = f"{', '.join(words)}, milliseconds or a time like 2026-01-31T12:00 from 1970 on"
    raise WrongConfiguration([f"{option}: expected {known}, found {text!r}"])


def _check_spelling(out: str, format_: str, catalog: str, table: str) -> None:
    if not out:
        raise WrongConfiguration(["--out: expected a folder or an address, found an empty text"])
    if format_ != "iceberg" and (catalog or table):
        raise WrongConfiguration(["--catalog and --table need --format iceberg"])
    if table and not all(table.rpartition(".")):
        raise WrongConfiguration([f"--table: expected NAMESPACE.NAME, found {table!r}"])


def _bootstrap(named: str) -> str:
    if named == NO_BROKER:
        return ""
    parse_bootstrap(named)
    return named


def _check_kept(
    keep: str,
    formats: Sequence[ValueFormat],
    on_bad_record: str | None,
    on_damage: str,
    recreated: str,
    partition_by: str,
) -> None:
    """Check the options that --keep latest excludes."""
    if keep != KEEP_LATEST:
        return
    if on_bad_record == DEAD_LETTERS or (formats and on_bad_record is None):
        raise WrongConfiguration(["--keep latest has no dead letters: --on-bad-record null or fail"])
    if on_damage == DEAD_LETTERS:
        raise WrongConfiguration(["--keep latest has no dead letters: --on-damage skip or fail"])
    if recreated != "fail" or partition_by != "none":
        raise WrongConfiguration(["--keep latest excludes --recreated append and --partition-by"])
