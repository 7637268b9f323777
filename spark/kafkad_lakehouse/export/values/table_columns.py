"""The columns of a table with parsed keys or values: the present columns, and new fields of the schema."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.schema import RECORDS
from kafkad_lakehouse.export.values.columns import PARSED, plain, widened
from kafkad_lakehouse.export.values.format import ValueFormat


class Columns(NamedTuple):
    """`table`: the columns after the commit; `files`: the columns in files of this run; `formats`: resolved formats."""

    table: pa.Schema
    files: pa.Schema
    formats: tuple[ValueFormat, ...]


def columns_for(formats: Sequence[ValueFormat], table: pa.Schema | None, *, may_widen: bool) -> Columns:
    """`table` is None for a new table. Raises `ExportFailed` if a schema is incompatible with the table."""
    known = {
        name: plain(table.field(name).type) for name in PARSED.values() if table is not None and name in table.names
    }
    resolved = tuple(_resolved(each, known.get(PARSED[each.of]), may_widen=may_widen) for each in formats)
    new = {PARSED[each.of]: each.columns for each in resolved}
    return Columns(_with({**known, **new}), _with(new), resolved)


def _resolved(value_format: ValueFormat, known: pa.DataType | None, *, may_widen: bool) -> ValueFormat:
    # Only parsed formats need their libraries.
    from kafkad_lakehouse.export.values.opening import resolve  # noqa: PLC0415

    resolved = resolve(value_format)
    if known is None:
        return resolved
    both = widened(known, resolved.columns, PARSED[value_format.of])
    if both != known and not may_widen:
        raise ExportFailed("the schema has new fields: --on-schema-change widen adds them to the table")
    return replace(resolved, columns=both)


def _with(parsed: Mapping[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*RECORDS, *(pa.field(name, parsed[name]) for name in PARSED.values() if name in parsed)])
