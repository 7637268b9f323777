"""The columns of a table that has parsed keys or values: what it has now, and what the schema adds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from kafkad.export.problems import ExportFailed
from kafkad.export.schema import RECORDS
from kafkad.export.values.columns import PARSED, plain, widened
from kafkad.export.values.format import ValueFormat


class Columns(NamedTuple):
    """`table`: after the commit; `files`: those of the files of this run; `formats`: what parses them."""

    table: pa.Schema
    files: pa.Schema
    formats: tuple[ValueFormat, ...]


def columns_for(formats: Sequence[ValueFormat], table: pa.Schema | None, *, may_widen: bool) -> Columns:
    """`table` is None for one that is not there yet. Raises `ExportFailed` when a schema does not fit to it."""
    known = {
        name: plain(table.field(name).type) for name in PARSED.values() if table is not None and name in table.names
    }
    resolved = tuple(_resolved(each, known.get(PARSED[each.of]), may_widen=may_widen) for each in formats)
    new = {PARSED[each.of]: each.columns for each in resolved}
    return Columns(_with({**known, **new}), _with(new), resolved)


def _resolved(wanted: ValueFormat, known: pa.DataType | None, *, may_widen: bool) -> ValueFormat:
    # Only who has something to parse needs what parses it.
    from kafkad.export.values.opening import resolve  # noqa: PLC0415

    resolved = resolve(wanted)
    if known is None:
        return resolved
    both = widened(known, resolved.columns, PARSED[wanted.of])
    if both != known and not may_widen:
        raise ExportFailed("the schema has new fields: --on-schema-change widen adds them to the table")
    return replace(resolved, columns=both)


def _with(parsed: Mapping[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*RECORDS, *(pa.field(name, parsed[name]) for name in PARSED.values() if name in parsed)])
