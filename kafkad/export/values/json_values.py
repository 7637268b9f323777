"""JSON into columns, by Arrow's reader: many values in one go, and fewer where one of them is none.

Each value has to be one row. One that begins with { and ends with } can't be read into its neighbour, so as many rows
as values means that each is one.
"""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from kafkad.export.values.parsed import Parsed, one_line

_SPACE = " \t\r\n"


class JsonParser:
    """See `Parser`. Fields that the columns do not have are left out; those that a value does not have are null."""

    def __init__(self, columns: pa.StructType) -> None:
        self._columns = columns
        self._options = pa.json.ParseOptions(
            explicit_schema=pa.schema(list(columns)), unexpected_field_behavior="ignore"
        )

    def parse(self, values: pa.Array, ids: pa.Array | None = None) -> Parsed:
        bad: dict[int, str] = {}
        present = values.drop_null()
        pieces = self._read(present, 0, bad)
        # Rows of `bad` are those among the values that are there; so are the pieces.
        rows = pc.indices_nonzero(values.is_valid())
        column = pa.concat_arrays(pieces) if pieces else pa.nulls(0, self._columns)
        if values.null_count:
            ranks = pc.cumulative_sum(values.is_valid().cast(pa.int64()))
            column = column.take(pc.if_else(values.is_valid(), pc.subtract(ranks, 1), None))
        return Parsed(column, {rows[row].as_py(): reason for row, reason in bad.items()})

    def _read(self, values: pa.Array, first: int, bad: dict[int, str]) -> list[pa.Array]:
        """Halves it until whatever can be read has been read."""
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
        """Raises `pa.ArrowException` if one of them is no such value."""
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
