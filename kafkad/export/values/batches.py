"""Record batches with a column of parsed values, and those records whose value could not be parsed."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkad.export.problems import ExportFailed
from kafkad.export.schema import DEAD_LETTERS
from kafkad.export.values.columns import VALUE
from kafkad.export.values.format import DEAD_LETTERS as TO_DEAD_LETTERS
from kafkad.export.values.format import FAIL, ValueFormat
from kafkad.export.values.opening import open_parser
from kafkad.export.values.parsed import Parsed
from kafkad.export.values.schema_headers import schema_ids


class ParsedBatch(NamedTuple):
    """`unparsed` counts those `records` whose parsed value is null as it could not be parsed."""

    records: pa.RecordBatch
    dead_letters: pa.RecordBatch
    unparsed: int


class BatchParser:
    """`schema` is that of the table: what it has beyond the records and their parsed values stays null."""

    def __init__(self, wanted: ValueFormat, schema: pa.Schema) -> None:
        self._parser = open_parser(wanted)
        self._kind = wanted.kind
        self._has_registry = bool(wanted.registry)
        self._on_bad = wanted.on_bad
        self._schema = schema

    def parse(self, batch: pa.RecordBatch, dead_letters_from: int) -> ParsedBatch:
        """Dead letters before that offset are left out: somebody has them. Raises `ExportFailed`."""
        found = self._parsed(batch.column("value"), batch.column("headers"))
        columns = {**dict(zip(batch.schema.names, batch.columns, strict=True)), VALUE: found.column}
        records = pa.RecordBatch.from_arrays(
            [columns[field.name].cast(field.type) for field in self._schema], schema=self._schema
        )
        if not found.bad:
            return ParsedBatch(records, _none(), 0)
        return self._without_bad(batch, records, dict(found.bad), dead_letters_from)

    def _parsed(self, values: pa.Array, headers: pa.Array) -> Parsed:
        if not self._has_registry:
            return self._parser.parse(values)
        ids, refused = schema_ids(headers, self._kind)
        bad = {row: reason for row, reason in refused.items() if values[row].is_valid}
        if bad:
            is_bad = np.zeros(len(values), bool)
            is_bad[list(bad)] = True
            values = pc.if_else(pa.array(is_bad), None, values)
        found = self._parser.parse(values, ids)
        return Parsed(found.column, {**found.bad, **bad})

    def _without_bad(
        self, batch: pa.RecordBatch, records: pa.RecordBatch, bad: dict[int, str], dead_letters_from: int
    ) -> ParsedBatch:
        rows = sorted(bad)
        if self._on_bad == FAIL:
            topic, partition, offset = (batch.column(name)[rows[0]] for name in ("topic", "partition", "offset"))
            raise ExportFailed(
                f"{topic}-{partition}: the value at offset {offset} can't be parsed as {self._kind}: {bad[rows[0]]}"
            )
        if self._on_bad != TO_DEAD_LETTERS:
            return ParsedBatch(records, _none(), len(rows))
        is_bad = np.zeros(batch.num_rows, bool)
        is_bad[rows] = True
        letters = batch.take(pa.array(rows, pa.int64()))
        reasons = pa.array([bad[row] for row in rows], pa.string())
        letters = pa.RecordBatch.from_arrays([*letters.columns, reasons], schema=DEAD_LETTERS)
        letters = letters.filter(pc.greater_equal(letters.column("offset"), dead_letters_from))
        return ParsedBatch(records.filter(pa.array(~is_bad)), letters, 0)


def _none() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in DEAD_LETTERS], schema=DEAD_LETTERS)
