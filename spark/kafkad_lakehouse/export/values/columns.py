"""The columns for parsed keys and values, and their changes with the schema. Pure.

All table formats have these types: integers and floating-point numbers of 64 bits, times in microseconds. So a field
that becomes wider in its schema (int to long) does not change its column.
"""

from collections.abc import Iterator

import pyarrow as pa

from kafkad_lakehouse.export.problems import ExportFailed

KEY, VALUE = "key_parsed", "value_parsed"
PARSED = {"key": KEY, "value": VALUE}
"""The column of parsed keys, and of parsed values."""
TIMESTAMP = pa.timestamp("us", "UTC")


def struct_of(fields: list[tuple[str, pa.DataType]], place: str) -> pa.StructType:
    """Raises `ExportFailed` for structs that tables can't have: without fields, or with names that differ by case."""
    if not fields:
        raise ExportFailed(f"schema: {place or 'it'} has no fields, and can't be a column")
    seen: set[str] = set()
    for name, _ in fields:
        if name.lower() in seen:
            raise ExportFailed(f"schema: {place or 'it'} has two fields {name!r}")
        seen.add(name.lower())
    return pa.struct([pa.field(name, kind) for name, kind in fields])


def widened(table: pa.DataType, required: pa.DataType, place: str = VALUE) -> pa.DataType:
    """The type in the table, with the new fields of `required` at the end. Raises `ExportFailed` for a changed type."""
    if pa.types.is_struct(table) and pa.types.is_struct(required):
        known = {field.name: field.type for field in table}
        new = {field.name: field.type for field in required}
        kept = [
            (name, widened(kind, new[name], f"{place}.{name}") if name in new else kind) for name, kind in known.items()
        ]
        return struct_of([*kept, *((name, kind) for name, kind in new.items() if name not in known)], place)
    if pa.types.is_list(table) and pa.types.is_list(required):
        return pa.list_(widened(table.value_type, required.value_type, f"{place}[]"))
    if pa.types.is_map(table) and pa.types.is_map(required) and table.key_type == required.key_type:
        return pa.map_(table.key_type, widened(table.item_type, required.item_type, f"{place}[]"))
    if table == required:
        return table
    raise ExportFailed(f"{place} is {table} in the table, and {required} in the schema now: use another folder")


def plain(kind: pa.DataType) -> pa.DataType:
    """The type without variants that the library of a table may use, such as large strings."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind


def leaves(field: pa.Field, path: str = "") -> list[str]:
    """The leaf columns of a Parquet file below this field, without lists and maps."""
    here = f"{path}.{field.name}" if path else field.name
    if pa.types.is_struct(field.type):
        return [leaf for each in field.type for leaf in leaves(each, here)]
    return [] if pa.types.is_nested(field.type) else [here]


def field_paths(schema: pa.Schema) -> set[str]:
    """The paths of all fields, nested fields included."""
    return {path for field in schema for path in _within(field.name, plain(field.type))}


def _within(path: str, kind: pa.DataType) -> Iterator[str]:
    yield path
    for number in range(kind.num_fields):
        field = kind.field(number)
        # Each library has its own names for the fields in lists and maps.
        name = field.name if pa.types.is_struct(kind) else str(number)
        yield from _within(f"{path}.{name}", field.type)
