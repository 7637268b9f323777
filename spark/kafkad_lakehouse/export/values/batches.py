"""Parse the keys and values of record batches into columns; records that can't be parsed become dead letters."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.schema import DEAD_LETTERS
from kafkad_lakehouse.export.values.columns import PARSED
from kafkad_lakehouse.export.values.format import DEAD_LETTERS as TO_DEAD_LETTERS
from kafkad_lakehouse.export.values.format import FAIL, ValueFormat
from kafkad_lakehouse.export.values.opening import open_parser
from kafkad_lakehouse.export.values.parsed import Parsed
from kafkad_lakehouse.export.values.schema_headers import schema_ids


class ParsedBatch(NamedTuple):
    """`unparsed` is the number of `records` with null instead of an unparsable key or value."""

    records: pa.RecordBatch
    dead_letters: pa.RecordBatch
    unparsed: int


class BatchParser:
    """`schema` is the schema of the table: its other columns are null."""

    def __init__(self, formats: Sequence[ValueFormat], schema: pa.Schema) -> None:
        self._parsers = [_ColumnParser(each) for each in formats]
        self._on_bad = formats[0].on_bad
        self._schema = schema

    def parse(self, batch: pa.RecordBatch, dead_letters_from: int) -> ParsedBatch:
        """Parse a batch. Omits dead letters before `dead_letters_from`, which are committed. Raises `ExportFailed`."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        bad: dict[int, str] = {}
        for each in self._parsers:
            found = each.parse(batch)
            columns[PARSED[each.format.of]] = found.column
            if found.bad and self._on_bad == FAIL:
                raise _bad_record(batch, each.format, found.bad)
            for row, reason in found.bad.items():
                bad[row] = "; ".join(filter(None, (bad.get(row), each.named(reason))))
        records = pa.RecordBatch.from_arrays(
            [columns[field.name].cast(field.type) for field in self._schema], schema=self._schema
        )
        if not bad:
            return ParsedBatch(records, _none(), 0)
        if self._on_bad != TO_DEAD_LETTERS:
            return ParsedBatch(records, _none(), len(bad))
        return _without_bad(batch, records, bad, dead_letters_from)


class _ColumnParser:
    """Parses keys, or values."""

    def __init__(self, value_format: ValueFormat) -> None:
        self.format = value_format
        self._parser = open_parser(value_format)

    def parse(self, batch: pa.RecordBatch) -> Parsed:
        values = batch.column(self.format.of)
        if not self.format.registry:
            return self._parser.parse(values)
        ids, rejected = schema_ids(batch.column("headers"), self.format.kind, self.format.of)
        bad = {row: reason for row, reason in rejected.items() if values[row].is_valid}
        if bad:
            is_bad = np.zeros(len(values), bool)
            is_bad[list(bad)] = True
            values = pc.if_else(pa.array(is_bad), None, values)
        found = self._parser.parse(values, ids)
        return Parsed(found.column, {**found.bad, **bad})

    def named(self, reason: str) -> str:
        """The reason with the prefix "key: " for keys."""
        return reason if self.format.of == "value" else f"{self.format.of}: {reason}"


def _bad_record(batch: pa.RecordBatch, value_format: ValueFormat, bad: Mapping[int, str]) -> ExportFailed:
    row = min(bad)
    topic, partition, offset = (batch.column(name)[row] for name in ("topic", "partition", "offset"))
    column, kind = value_format.of, value_format.kind
    return ExportFailed(f"{topic}-{partition}: the {column} at offset {offset} can't be parsed as {kind}: {bad[row]}")


def _without_bad(
    batch: pa.RecordBatch, records: pa.RecordBatch, bad: Mapping[int, str], dead_letters_from: int
) -> ParsedBatch:
    rows = sorted(bad)
    is_bad = np.zeros(batch.num_rows, bool)
    is_bad[rows] = True
    letters = batch.take(pa.array(rows, pa.int64()))
    reasons = pa.array([bad[row] for row in rows], pa.string())
    letters = pa.RecordBatch.from_arrays([*letters.columns, reasons], schema=DEAD_LETTERS)
    letters = letters.filter(pc.greater_equal(letters.column("offset"), dead_letters_from))
    return ParsedBatch(records.filter(pa.array(~is_bad)), letters, 0)


def _none() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in DEAD_LETTERS], schema=DEAD_LETTERS)
