"""Convert Avro to columns: the types of a schema, and values of the schema.

The logical types timestamp, date and decimal become column types. Times of day and UUIDs stay numbers and text, because
not every table format has such types.
"""

import io
import json
from typing import Any

import pyarrow as pa

from kafkad_lakehouse.export.problems import ExportFailed, NotInstalled
from kafkad_lakehouse.export.values.columns import TIMESTAMP, struct_of
from kafkad_lakehouse.export.values.framing import Decode
from kafkad_lakehouse.export.values.registry import AVRO, Schema

try:
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType
except ImportError as error:
    raise NotInstalled("avro", "fastavro") from error

_SIMPLE = {
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
}
_LARGEST_PRECISION = 38


def columns_of(schema: Schema) -> pa.DataType:
    """The column type of the schema; a struct for a record. Raises `ExportFailed`."""
    return _type(_parsed(schema, expand=True), "")


def decoder_of(schema: Schema) -> Decode:
    """Raises `ExportFailed`."""
    parsed = _parsed(schema, expand=False)

    def decode(value: bytes) -> Any:
        stream = io.BytesIO(value)
        found = fastavro.schemaless_reader(stream, parsed, None)
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes are left over")
        return found

    return decode


def _parsed(schema: Schema, *, expand: bool) -> Any:
    if schema.kind != AVRO:
        raise ExportFailed(f"the registry has a schema of kind {schema.kind}, not Avro")
    named: dict[str, Any] = {}
    try:
        for _, each in _in_order(schema):
            parsed = fastavro.parse_schema(_simplified(json.loads(each.text)), named, expand=expand)
    except (ValueError, KeyError, TypeError, SchemaParseException, UnknownType) as error:
        raise ExportFailed(f"the Avro schema can't be read: {' '.join(str(error).split())}") from error
    return parsed


def _in_order(schema: Schema, name: str = "") -> list[tuple[str, Schema]]:
    """The schema after its references, each once."""
    found = {each: inner for reference, child in schema.references for each, inner in _in_order(child, reference)}
    return [*found.items(), (name, schema)]


def _simplified(node: Any) -> Any:
    """The schema without logical types that have no column type."""
    if isinstance(node, list):
        return [_simplified(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {
        name: _simplified(each) if name in {"type", "items", "values", "fields"} else each
        for name, each in node.items()
    }
    if "logicalType" in kept and kept["logicalType"] not in {*_LOGICAL, "decimal"}:
        del kept["logicalType"]
    return kept


def _type(node: Any, place: str) -> pa.DataType:
    if isinstance(node, list):
        return _union([each for each in node if each != "null"], place)
    if isinstance(node, str):
        node = {"type": node}
    name, logical = node["type"], node.get("logicalType")
    if logical == "decimal":
        return _decimal(node, place)
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if isinstance(name, dict | list):
        return _type(name, place)
    if name == "record":
        rows = node["fields"]
        return struct_of([(each["name"], _type(each["type"], f"{place}.{each['name']}")) for each in rows], place)
    if name == "array":
        return pa.list_(_type(node["items"], f"{place}[]"))
    if name == "map":
        return pa.map_(pa.string(), _type(node["values"], f"{place}[]"))
    if name in _SIMPLE:
        return _SIMPLE[name]
    raise ExportFailed(f"schema: {place or 'it'} is {name}, which can't be a column (it may be recursive)")


def _union(choices: list[Any], place: str) -> pa.DataType:
    """The type of a union of one type and null, or of numbers."""
    kinds = {str(kind): kind for kind in (_type(each, place) for each in choices)}
    if len(kinds) == 1:
        return kinds.popitem()[1]
    if set(kinds) == {str(pa.int64()), str(pa.float64())}:
        return pa.float64()
    raise ExportFailed(
        f"schema: {place or 'it'} is a union of {', '.join(kinds) or 'nothing'}, which can't be a column"
    )


def _decimal(node: Any, place: str) -> pa.DataType:
    precision = node.get("precision", 0)
    if not 0 < precision <= _LARGEST_PRECISION:
        raise ExportFailed(f"schema: {place} is a decimal of {precision} digits, which can't be a column")
    return pa.decimal128(precision, node.get("scale", 0))
