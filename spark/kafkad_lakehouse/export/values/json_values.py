"""Convert JSON to columns with Arrow's reader: many values in one call, and fewer after an error.

Each value must be one row. A value that begins with { and ends with } can't continue in the next value, so the values
are valid if the number of rows equals the number of values.
"""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from kafkad_lakehouse.export.values.parsed import Parsed, one_line

_SPACE = " \t\r\n"


class JsonParser:
    """See `Parser`. Ignores fields without a column; missing fields are null."""

    def __init__(self, columns: pa.StructType) -> None:
        self._columns = columns
        self._options = pa.json.ParseOptions(
            explicit_schema=pa.schema(list(columns)), unexpected_field_behavior="ignore"
        )

    def parse(self, values: pa.Array, ids: pa.Array | None = None) -> Parsed:
        bad: dict[int, str] = {}
        present = values.drop_null()
        pieces = self._read(present, 0, bad)
        # The rows in `bad` and in the pieces count only values that are not null.
        rows = pc.indices_nonzero(values.is_valid())
        column = pa.concat_arrays(pieces) if pieces else pa.nulls(0, self._columns)
        if values.null_count:
            ranks = pc.cumulative_sum(values.is_valid().cast(pa.int64()))
            column = column.take(pc.if_else(values.is_valid(), pc.subtract(ranks, 1), None))
        return Parsed(column, {rows[row].as_py(): reason for row, reason in bad.items()})

    def _read(self, values: pa.Array, first: int, bad: dict[int, str]) -> list[pa.Array]:
        """Read the values; after an error, read each half."""
        if len(values) == 0:
            return []
        try:
            return [self._read_all(values)]
        except (pa.ArrowException, UnicodeError) as error:
            if len(values) == 1:
                bad[first] = one_line(error).removesuffix(" in row 0")
                return [pa.nulls(1, self._columns)]
        half = len(values) // 2
        return [*self._read(values[:half], first, bad), *self._read(values[half:], first + half, bad)]

    def _read_all(self, values: pa.Array) -> pa.Array:
        """Raises `pa.ArrowException` if one value is invalid."""
        text = pc.utf8_trim(values.cast(pa.string()), _SPACE)
        if not pc.all(pc.and_(pc.starts_with(text, "{"), pc.ends_with(text, "}"))).as_py():
            raise pa.ArrowInvalid("it is not a JSON object")
        lines = pc.binary_join_element_wise(text, pa.scalar(""), pa.scalar("\n"))
        data = lines.buffers()[2]
        table = pa.json.read_json(
            pa.BufferReader(data),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=data.size + 1),
            parse_options=self._options,
        )
        if table.num_rows != len(values):
            raise pa.ArrowInvalid("it is more than one JSON object")
        table = table.combine_chunks()
        chunks = [table.column(field.name).chunk(0) for field in self._columns]
        return pa.StructArray.from_arrays(chunks, fields=list(self._columns))
