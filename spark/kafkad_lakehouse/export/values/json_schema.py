"""The columns of a JSON Schema.

An object becomes a struct, an array a list, and a string with format date-time a timestamp. Every column is nullable. A
schema that can't be a column, such as several types, is rejected with its path.
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.values.columns import TIMESTAMP, struct_of

_SIMPLE = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_MAX_DEPTH = 20


def columns_of(schema: bytes | str) -> pa.StructType:
    """Raises `ExportFailed`."""
    try:
        root = json.loads(schema)
    except ValueError as error:
        raise ExportFailed(f"the JSON Schema is not JSON: {error}") from error
    found = _type(root, root, "", 0)
    if not pa.types.is_struct(found):
        raise ExportFailed("the JSON Schema does not describe an object with properties")
    return found


def _type(node: Any, root: Any, place: str, depth: int) -> pa.DataType:
    if depth > _MAX_DEPTH:
        raise ExportFailed(f"schema: {place} is recursive, and can't be a column")
    node = _without_null(_resolved(node, root, place), root, place)
    name = node.get("type", "object" if "properties" in node else None)
    if name == "object" and isinstance(node.get("properties"), dict) and node["properties"]:
        rows = node["properties"].items()
        return struct_of([(each, _type(kind, root, f"{place}.{each}", depth + 1)) for each, kind in rows], place)
    if name == "array" and "items" in node:
        return pa.list_(_type(node["items"], root, f"{place}[]", depth + 1))
    if name == "string" or (name is None and _are_strings(node.get("enum"))):
        return TIMESTAMP if node.get("format") == "date-time" else pa.string()
    if isinstance(name, str) and name in _SIMPLE:
        return _SIMPLE[name]
    raise ExportFailed(
        f"schema: {place or 'it'} is {name or 'of several or no types'}, which can't be a column: remove it from the"
        " schema"
    )


def _resolved(node: Any, root: Any, place: str) -> Mapping[str, Any]:
    for _ in range(_MAX_DEPTH):
        if not isinstance(node, dict) or "$ref" not in node:
            break
        reference, node = node["$ref"], root
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise ExportFailed(f"schema: {place} is in another file, {reference}")
        for step in reference.removeprefix("#").split("/")[1:]:
            node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    if not isinstance(node, dict):
        raise ExportFailed(f"schema: {place or 'it'} has no type, and can't be a column: remove it from the schema")
    return node


def _without_null(node: Mapping[str, Any], root: Any, place: str) -> Mapping[str, Any]:
    """Replace `["null", X]`, and `anyOf` or `oneOf` of null and X, by X."""
    kinds = node.get("type")
    if isinstance(kinds, list):
        left = [kind for kind in kinds if kind != "null"]
        return {**node, "type": left[0] if len(left) == 1 else None}
    for word in ("anyOf", "oneOf"):
        if isinstance(node.get(word), list):
            choices = [_resolved(each, root, place) for each in node[word]]
            left = [each for each in choices if each.get("type") != "null"]
            if len(left) == 1:
                return left[0]
    return node


def _are_strings(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(each, str | None) for each in found)
