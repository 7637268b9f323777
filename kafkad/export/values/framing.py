"""Values that begin with the id of their schema: a zero byte and four bytes, as serializers with a registry write."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkad.export.values.parsed import Parsed, Parser, decoded
from kafkad.export.values.registry import Registry, Schema

ID_END = 5
_NO_ID = "it does not begin with the id of a schema"

Decode = Callable[[bytes], Any]


class FramedParser:
    """See `Parser`. Decodes each value by the schema that it was written with."""

    def __init__(self, registry: Registry, columns: pa.StructType, open_schema: Callable[[Schema], Decode]) -> None:
        self._registry = registry
        self._columns = columns
        self._open_schema = open_schema
        self._decoders: dict[int, Decode] = {}

    def parse(self, values: pa.Array) -> Parsed:
        return decoded(values.to_pylist(), self._decode, self._columns)

    def _decode(self, value: bytes) -> Any:
        if len(value) < ID_END or value[0] != 0:
            raise ValueError(_NO_ID)
        schema_id = int.from_bytes(value[1:ID_END], "big")
        decode = self._decoders.get(schema_id)
        if decode is None:
            schema = self._registry.by_id(schema_id)
            if schema is None:
                raise ValueError(f"schema {schema_id} is not in the registry")
            decode = self._decoders[schema_id] = self._open_schema(schema)
        return decode(value[ID_END:])


class UnframedParser:
    """See `Parser`. The id says nothing that another parser needs, which gets what is behind it."""

    def __init__(self, inner: Parser) -> None:
        self._inner = inner

    def parse(self, values: pa.Array) -> Parsed:
        zero = pc.equal(pc.binary_slice(values, 0, 1), pa.scalar(b"\0"))
        framed = pc.and_(zero, pc.greater_equal(pc.binary_length(values), ID_END))
        rest = pc.if_else(framed, pc.binary_slice(values, ID_END, 1 << 31), pa.scalar(None, pa.binary()))
        found = self._inner.parse(rest)
        without = pc.indices_nonzero(pc.fill_null(pc.invert(framed), fill_value=False)).to_pylist()
        return Parsed(found.column, {**found.bad, **dict.fromkeys(without, _NO_ID)})
