"""The columns of a table that has parsed values: what it has now, and what the schema adds."""

from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from kafkad.export.problems import ExportFailed
from kafkad.export.schema import RECORDS
from kafkad.export.values.columns import VALUE, plain, widened
from kafkad.export.values.format import ValueFormat


class Columns(NamedTuple):
    """`table`: after the commit; `files`: those of the files of this run; `values`: what parses them."""

    table: pa.Schema
    files: pa.Schema
    values: ValueFormat | None


def columns_for(wanted: ValueFormat | None, table: pa.Schema | None, *, may_widen: bool) -> Columns:
    """`table` is None for one that is not there yet. Raises `ExportFailed` when the schema does not fit to it."""
    known = plain(table.field(VALUE).type) if table is not None and VALUE in table.names else None
    if wanted is None:
        return Columns(_with(known), RECORDS, None)
    # Only who has values to parse needs what parses them.
    from kafkad.export.values.opening import resolve  # noqa: PLC0415

    resolved = resolve(wanted)
    new = resolved.columns
    if known is not None:
        new = widened(known, new)
        if new != known and not may_widen:
            raise ExportFailed("the schema has new fields: --on-schema-change widen adds them to the table")
    return Columns(_with(new), _with(new), replace(resolved, columns=new))


def _with(value: pa.DataType | None) -> pa.Schema:
    return RECORDS if value is None else pa.schema([*RECORDS, pa.field(VALUE, value)])
