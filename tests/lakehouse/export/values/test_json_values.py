"""JSON in columns: whatever is no such value is told apart from its neighbours."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.values.json_schema import columns_of
from kafkad_lakehouse.export.values.json_values import JsonParser

COLUMNS = pa.struct([("id", pa.int64()), ("item", pa.struct([("name", pa.string())])), ("tags", pa.list_(pa.string()))])


def parsed(*values: bytes | None) -> tuple[list[object], set[int]]:
    found = JsonParser(COLUMNS).parse(pa.array(values, pa.binary()))
    return found.column.to_pylist(), set(found.bad)


def test_fields_are_columns_and_those_that_no_column_has_are_left_out() -> None:
    value = {"id": 7, "item": {"name": "bolt", "colour": "red"}, "tags": ["a", None], "more": [1]}
    rows, bad = parsed(json.dumps(value, indent=2).encode())
    assert (rows, bad) == ([{"id": 7, "item": {"name": "bolt"}, "tags": ["a", None]}], set())


def test_a_null_value_is_null_and_not_bad() -> None:
    assert parsed(None, b'{"id": 1}', None)[0] == [None, {"id": 1, "item": None, "tags": None}, None]
    assert parsed(None, b'{"id": 1}', None)[1] == set()


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b" ", b"5", b"null", b"[1]", b"nonsense", b"\xff", b"{", b"}", b'{"id": "7"}', b'{"id": 1.5}'),
        *(b'{"id": 1}{"id": 2}', b'{"id": 1},"z":{}', b'{"id": 99999999999999999999}', b'{"item": {"name": "\xff"}}'),
        *(
            b'{"more": "\xff"}',
            b'{"id": 1, "id": 2}',
            b'{"tags": {}}',
            b'{"item": "}',
            b'{"item": {"name": "\\ud800"}}',
        ),
    ],
)
def test_what_is_no_such_value_is_bad_and_its_neighbours_are_not(value: bytes) -> None:
    rows, bad = parsed(b'{"id": 1}', None, value, value, b'{"id": 2}')
    assert bad == {2, 3}
    assert [row and row["id"] for row in rows] == [1, None, None, None, 2]  # type: ignore[index]


def test_objects_within_each_other_a_million_deep_are_read() -> None:
    deep = b'{"more": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"
    assert parsed(deep)[1] == set()


PIECES = st.sampled_from([b"{", b"}", b'"', b":", b",", b"1", b'"id"', b"\n", b" ", b"[", b"]", b'{"id":1}', b"\\"])


@given(st.lists(st.none() | st.lists(PIECES, max_size=6).map(b"".join), max_size=8))
def test_each_value_is_judged_as_if_it_were_alone(values: list[bytes | None]) -> None:
    rows, bad = parsed(*values)
    alone = [parsed(value) for value in values]
    assert rows == [found[0] for found, _ in alone]
    assert bad == {row for row, (_, wrong) in enumerate(alone) if wrong}


def test_a_schema_names_columns() -> None:
    schema = {
        "$defs": {"name": {"type": "string"}},
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "price": {"type": ["number", "null"]},
            "at": {"type": "string", "format": "date-time"},
            "colour": {"enum": ["red", "blue"]},
            "name": {"$ref": "#/$defs/name"},
            "size": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
            "lines": {"type": "array", "items": {"properties": {"open": {"type": "boolean"}}}},
        },
    }
    assert columns_of(json.dumps(schema)) == pa.struct(
        [
            ("id", pa.int64()),
            ("price", pa.float64()),
            ("at", pa.timestamp("us", "UTC")),
            ("colour", pa.string()),
            ("name", pa.string()),
            ("size", pa.int64()),
            ("lines", pa.list_(pa.struct([("open", pa.bool_())]))),
        ]
    )


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "not JSON"),
        ('{"type": "string"}', "does not describe an object"),
        ('{"properties": {"a": {}}}', r"\.a is of several or no types"),
        ('{"properties": {"a": {"type": ["string", "integer"]}}}', r"\.a is of several or no types"),
        ('{"properties": {"a": {"$ref": "#"}}}', "recursive"),
        ('{"properties": {"a": {"$ref": "other.json"}}}', "in another file"),
        ('{"properties": {"a": {"type": "object"}}}', r"\.a is object, which can't be a column"),
        ('{"type": "object", "properties": 5}', "it is object, which can't be a column"),
        ('{"properties": {"a": {"type": "string"}, "A": {"type": "string"}}}', "two fields 'A'"),
    ],
)
def test_what_can_not_be_a_column_is_named(schema: str, said: str) -> None:
    with pytest.raises(ExportFailed, match=said):
        columns_of(schema)
