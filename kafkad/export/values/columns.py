"""Which columns does a table have for keys and values, and how do they change with the schema? Pure.

The types are those that every kind of table knows: integers have 64 bits, floating-point numbers too, times have
microseconds. So a field that becomes wider in its schema (int to long) is no change here.
"""

from collections.abc import Iterator

import pyarrow as pa

from kafkad.export.problems import ExportFailed

KEY, VALUE = "key_parsed", "value_parsed"
PARSED = {"key": KEY, "value": VALUE}
"""The column of what is parsed of each of these."""
TIMESTAMP = pa.timestamp("us", "UTC")


def struct_of(fields: list[tuple[str, pa.DataType]], place: str) -> pa.StructType:
    """Raises `ExportFailed` where tables can't have such a thing: no field, or two whose names differ only by case."""
    if not fields:
        raise ExportFailed(f"schema: {place or 'it'} has no fields, and can't be a column")
    seen: set[str] = set()
    for name, _ in fields:
        if name.lower() in seen:
            raise ExportFailed(f"schema: {place or 'it'} has two fields {name!r}")
        seen.add(name.lower())
    return pa.struct([pa.field(name, kind) for name, kind in fields])


def widened(table: pa.DataType, wanted: pa.DataType, place: str = VALUE) -> pa.DataType:
    """What the table has, and behind it the fields that are new. Raises `ExportFailed` for a field of another type."""
    if pa.types.is_struct(table) and pa.types.is_struct(wanted):
        known = {field.name: field.type for field in table}
        new = {field.name: field.type for field in wanted}
        kept = [
            (name, widened(kind, new[name], f"{place}.{name}") if name in new else kind) for name, kind in known.items()
        ]
        return struct_of([*kept, *((name, kind) for name, kind in new.items() if name not in known)], place)
    if pa.types.is_list(table) and pa.types.is_list(wanted):
        return pa.list_(widened(table.value_type, wanted.value_type, f"{place}[]"))
    if pa.types.is_map(table) and pa.types.is_map(wanted) and table.key_type == wanted.key_type:
        return pa.map_(table.key_type, widened(table.item_type, wanted.item_type, f"{place}[]"))
    if table == wanted:
        return table
    raise ExportFailed(f"{place} is {table} in the table, and {wanted} in the schema now: name another folder")


def plain(kind: pa.DataType) -> pa.DataType:
    """A type as a table's library names it, in our names."""
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
    """The columns of a Parquet file below this field, but for lists and maps."""
    here = f"{path}.{field.name}" if path else field.name
    if pa.types.is_struct(field.type):
        return [leaf for each in field.type for leaf in leaves(each, here)]
    return [] if pa.types.is_nested(field.type) else [here]


def field_paths(schema: pa.Schema) -> set[str]:
    """All fields, those within others too."""
    return {path for field in schema for path in _within(field.name, plain(field.type))}


def _within(path: str, kind: pa.DataType) -> Iterator[str]:
    yield path
    for number in range(kind.num_fields):
        field = kind.field(number)
        # The names of what is in lists and maps are each library's own.
        name = field.name if pa.types.is_struct(kind) else str(number)
        yield from _within(f"{path}.{name}", field.type)
