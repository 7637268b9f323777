"""Avro in columns, by a schema file or a registry."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kafkad_lakehouse.export.problems import ExportFailed, RegistryUnavailable
from kafkad_lakehouse.export.values.format import ValueFormat
from kafkad_lakehouse.export.values.opening import open_parser, resolve
from kafkad_lakehouse.export.values.parsed import Parsed
from tests.lakehouse.export.values.registry_server import AUTH, RegistryServer, serving

ORDER: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
WIDER: dict[str, Any] = {
    **ORDER,
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with serving() as running:
        yield running


def written(schema: dict[str, Any], value: dict[str, Any], schema_id: int | None = None) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return (b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")) + stream.getvalue()


def parsed(wanted: ValueFormat, *values: bytes | None) -> Parsed:
    return open_parser(resolve(wanted)).parse(pa.array(values, pa.binary()))


def of_file(schema: dict[str, Any]) -> ValueFormat:
    return ValueFormat(kind="avro", schema=json.dumps(schema).encode())


def of_registry(registry: RegistryServer) -> ValueFormat:
    return ValueFormat(kind="avro", registry=registry.url, subject="orders-value", timeout_s=10)


def field(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}


@pytest.mark.parametrize(
    ("kind", "column", "value", "found"),
    [
        ("boolean", pa.bool_(), True, True),
        ("int", pa.int64(), 5, 5),
        ("float", pa.float64(), 0.5, 0.5),
        ("bytes", pa.binary(), b"\xff", b"\xff"),
        (["null", "string"], pa.string(), None, None),
        (["int", "double"], pa.float64(), 5, 5.0),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, pa.string(), "B", "B"),
        ({"type": "fixed", "name": "F", "size": 2}, pa.binary(), b"xy", b"xy"),
        ({"type": "array", "items": "long"}, pa.list_(pa.int64()), [1, 2], [1, 2]),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int64()), {"a": 1}, [("a", 1)]),
        ({"type": "int", "logicalType": "date"}, pa.date32(), date(2024, 1, 2), date(2024, 1, 2)),
        ({"type": "int", "logicalType": "time-millis"}, pa.int64(), 7, 7),
        ({"type": "string", "logicalType": "uuid"}, pa.string(), "an id", "an id"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            pa.timestamp("us", "UTC"),
            datetime(2024, 1, 2, tzinfo=UTC),
            datetime(2024, 1, 2, tzinfo=UTC),
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
            pa.decimal128(6, 2),
            Decimal("12.50"),
            Decimal("12.50"),
        ),
        (field("int"), pa.struct([("f", pa.int64())]), {"f": 1}, {"f": 1}),
    ],
)
def test_types_are_columns(kind: Any, column: pa.DataType, value: Any, found: Any) -> None:
    schema = field(kind) if not isinstance(kind, dict) or kind.get("type") != "record" else field({**kind, "name": "S"})
    raw = kind if not isinstance(kind, dict) or kind.get("logicalType") not in {"uuid", "time-millis"} else kind["type"]
    result = parsed(of_file(schema), written(field(raw) if raw is not kind else schema, {"f": value}))
    assert (result.column.type, result.column.to_pylist(), result.bad) == (
        pa.struct([("f", column)]),
        [{"f": found}],
        {},
    )


@pytest.mark.parametrize("value", [b"", b"\x80", b"\x02\x02", b"\xff" * 11])
def test_bytes_that_are_no_record_are_bad(value: bytes) -> None:
    result = parsed(of_file(ORDER), written(ORDER, {"id": 1}), None, value)
    assert (result.column.to_pylist(), set(result.bad)) == ([{"id": 1}, None, None], {2})


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (["string", "int"], "is a union of"),
        ("null", "is null, which can't be a column"),
        (["null", "R"], "recursive"),
        ({"type": "array", "items": "null"}, r"f\[\] is null"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 60}, "60 digits"),
        ("unheard-of", "can't be read"),
    ],
)
def test_what_can_not_be_a_column_is_named(kind: Any, said: str) -> None:
    with pytest.raises(ExportFailed, match=said):
        resolve(of_file(field(kind)))


def test_columns_are_those_of_all_versions_and_each_value_has_its_own(registry: RegistryServer) -> None:
    old, new = (registry.register("orders-value", json.dumps(each)) for each in (ORDER, WIDER))
    values = [
        written(ORDER, {"id": 1}, old),
        written(WIDER, {"id": 2, "note": "x"}, new),
        b"\0\0\0\0\x63\x02",
        b"{}",
        b"\0",
    ]
    result = parsed(of_registry(registry), *values)
    assert result.column.to_pylist() == [{"id": 1, "note": None}, {"id": 2, "note": "x"}, None, None, None]
    assert [result.bad[row] for row in (2, 3, 4)] == [
        "ValueError: schema 99 is not in the registry",
        *["ValueError: neither the value nor a header begins with a schema id"] * 2,
    ]


def test_the_registry_is_asked_once_for_an_id(registry: RegistryServer) -> None:
    number = registry.register("orders-value", json.dumps(ORDER))
    parsed(of_registry(registry), *[written(ORDER, {"id": each}, number) for each in range(50)], *[b"\0\0\0\0\7!"] * 50)
    assert [registry.asked.count(f"/schemas/ids/{each}") for each in (number, 7)] == [1, 1]


def test_a_schema_may_refer_to_others(registry: RegistryServer) -> None:
    item = {"type": "record", "name": "Item", "fields": [{"name": "name", "type": "string"}]}
    registry.register("item", json.dumps(item))
    order = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "Item"}]}
    references = [{"name": "Item", "subject": "item", "version": 1}]
    number = registry.register("orders-value", json.dumps(order), references=references)
    whole = {**order, "fields": [{"name": "item", "type": item}]}
    result = parsed(of_registry(registry), written(whole, {"item": {"name": "bolt"}}, number))
    assert result.column.to_pylist() == [{"item": {"name": "bolt"}}]


def test_what_answers_otherwise_is_no_registry(registry: RegistryServer) -> None:
    registry.schemas.append({"message": "welcome"})
    registry.subjects["orders-value"] = [1]
    with pytest.raises(ExportFailed, match=r"is not a schema registry: it returned \{\"message\": \"welcome\"\}"):
        resolve(of_registry(registry))


def test_a_registry_that_does_not_answer_is_no_fault_of_a_value(registry: RegistryServer) -> None:
    wanted = of_registry(registry)
    with pytest.raises(ExportFailed, match="has no subject 'orders-value'"):
        resolve(wanted)
    with pytest.raises(ExportFailed, match="not an address of a schema registry"):
        resolve(ValueFormat(kind="avro", registry="registry:8081", subject="s"))
    with pytest.raises(RegistryUnavailable, match=r"the schema registry at http.* does not respond"):
        resolve(ValueFormat(kind="avro", registry="http://127.0.0.1:1", subject="s"))
    registry.register("orders-value", "{}", kind="JSON")
    with pytest.raises(ExportFailed, match="kind JSON, not Avro"):
        resolve(wanted)


def test_user_and_password_come_from_the_environment_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(needs_auth=True) as registry:
        registry.register("orders-value", json.dumps(ORDER))
        with pytest.raises(ExportFailed, match="rejects access: set KAFKAD_SCHEMA_REGISTRY_AUTH"):
            resolve(of_registry(registry))
        monkeypatch.setenv("KAFKAD_SCHEMA_REGISTRY_AUTH", AUTH)
        resolved = resolve(of_registry(registry))
        monkeypatch.delenv("KAFKAD_SCHEMA_REGISTRY_AUTH")
        # As in a task on another machine.
        assert open_parser(resolved).parse(pa.array([written(ORDER, {"id": 3}, 1)], pa.binary())).bad == {}
        assert "se" + "%" not in repr(resolved) and "cret" not in repr(resolved)
        monkeypatch.setenv("KAFKAD_SCHEMA_REGISTRY_AUTH", "user:wrong")
        with pytest.raises(ExportFailed) as rejected:
            resolve(of_registry(registry))
        assert "wrong" not in str(rejected.value)
