"""Values with schema ids, as serializers with a schema registry write them.

A value begins with a zero byte and a schema id of four bytes. Instead, a header of the record may have the same, or a
one and a GUID of 16 bytes. With such a header the value has no prefix.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from kafkad_lakehouse.export.values.parsed import Parsed, Parser, decoded
from kafkad_lakehouse.export.values.registry import PROTOBUF, Registry, Schema

ID_END, GUID_END = 5, 17
_NO_ID = "neither the value nor a header begins with a schema id"

Decode = Callable[[bytes], Any]


class FramedParser:
    """See `Parser`. Decodes each value with its schema."""

    def __init__(self, registry: Registry, columns: pa.DataType, open_schema: Callable[[Schema], Decode]) -> None:
        self._registry = registry
        self._columns = columns
        self._open_schema = open_schema
        self._opened: dict[int | UUID, tuple[Decode, bool]] = {}

    def parse(self, values: pa.Array, ids: pa.Array | None = None) -> Parsed:
        rows = zip(values.to_pylist(), _or_none(ids, values).to_pylist(), strict=True)
        framed = [None if value is None else (value, found) for value, found in rows]
        return decoded(framed, self._decode, self._columns)

    def _decode(self, row: tuple[bytes, bytes | None]) -> Any:
        value, header = row
        if header is None:
            schema_id, behind = _parse_id(value)
            return self._open(schema_id)[0](behind)
        schema_id, message = _parse_id(header)
        decode, has_message = self._open(schema_id)
        if has_message != bool(message):
            raise ValueError(f"the header with the schema id has {len(message)} bytes after the id")
        return decode(message + value)

    def _open(self, schema_id: int | UUID) -> tuple[Decode, bool]:
        """The decoder of a schema, and whether a message index follows the id, as in Protobuf."""
        if schema_id not in self._opened:
            schema = self._registry.by_id(schema_id)
            if schema is None:
                raise ValueError(f"schema {schema_id} is not in the registry")
            self._opened[schema_id] = self._open_schema(schema), schema.kind == PROTOBUF
        return self._opened[schema_id]


class UnframedParser:
    """See `Parser`. Removes the ids and calls another parser, which does not need them."""

    def __init__(self, inner: Parser) -> None:
        self._inner = inner

    def parse(self, values: pa.Array, ids: pa.Array | None = None) -> Parsed:
        ids = _or_none(ids, values)
        beside = pc.or_(_begins_with(ids, b"\0", ID_END), _begins_with(ids, b"\1", GUID_END))
        rest = pa.nulls(len(values), pa.binary())
        for magic, end in ((b"\0", ID_END), (b"\1", GUID_END)):
            framed = pc.and_(ids.is_null(), _begins_with(values, magic, end))
            rest = pc.if_else(framed, pc.binary_slice(values, end, 1 << 31), rest)
        rest = pc.if_else(beside, values, rest)
        found = self._inner.parse(rest)
        without = pc.indices_nonzero(pc.and_(values.is_valid(), rest.is_null())).to_pylist()
        return Parsed(found.column, {**found.bad, **dict.fromkeys(without, _NO_ID)})


def _parse_id(framed: bytes) -> tuple[int | UUID, bytes]:
    """The id, and the bytes after the id."""
    if framed[:1] == b"\0" and len(framed) >= ID_END:
        return int.from_bytes(framed[1:ID_END], "big"), framed[ID_END:]
    if framed[:1] == b"\1" and len(framed) >= GUID_END:
        return UUID(bytes=framed[1:GUID_END]), framed[GUID_END:]
    raise ValueError(_NO_ID)


def _begins_with(framed: pa.Array, magic: bytes, end: int) -> pa.Array:
    is_magic = pc.equal(pc.binary_slice(framed, 0, len(magic)), pa.scalar(magic))
    return pc.fill_null(pc.and_(is_magic, pc.greater_equal(pc.binary_length(framed), end)), fill_value=False)


def _or_none(ids: pa.Array | None, values: pa.Array) -> pa.Array:
    return pa.nulls(len(values), pa.binary()) if ids is None else ids
