"""Which schema a value was written with: its own first bytes say so, or a header of its record."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as F

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.schema import HEADERS, RECORDS
from kafkad_lakehouse.export.values.batches import BatchParser, ParsedBatch
from kafkad_lakehouse.export.values.columns import PARSED, VALUE
from kafkad_lakehouse.export.values.format import ValueFormat
from kafkad_lakehouse.export.values.opening import resolve
from kafkad_lakehouse.export.values.schema_headers import NAMES, last_values
from tests.lakehouse.export.values.registry_server import RegistryServer, serving
from tests.lakehouse.export.values.test_avro_values import ORDER, WIDER, written
from tests.lakehouse.export.values.test_protobuf_values import class_of, field, file_of, message, serialized

Headers = list[tuple[str, str | bytes | None]]
CONFLUENT, CONTENT_ID, GLOBAL_ID, ENCODING = NAMES["value"]


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with serving() as running:
        yield running


def header(
    kind: str, number: int, message_indexes: list[int] | None = None, field: MessageField = MessageField.VALUE
) -> Headers:
    """As Confluent's serializer makes it."""
    headers: Headers = [("trace", b"x")]
    context = SerializationContext("orders", field, headers)
    schema_id = SchemaId(kind, guid=str(UUID(int=number)), message_indexes=message_indexes)
    header_schema_id_serializer(b"", context, schema_id)
    return headers


def parsed(wanted: ValueFormat, *rows: tuple[bytes | None, Headers | None]) -> ParsedBatch:
    columns: dict[str, list[Any]] = {name: [None] * len(rows) for name in RECORDS.names}
    columns |= {wanted.of: [value for value, _ in rows], "headers": [headers for _, headers in rows]}
    columns |= {"offset": list(range(len(rows)))}
    resolved = resolve(wanted)
    schema = pa.schema([*RECORDS, pa.field(PARSED[wanted.of], resolved.columns)])
    (batch,) = pa.table(columns, schema=RECORDS).to_batches()
    return BatchParser([resolved], schema).parse(batch, 0)


def values(found: ParsedBatch) -> list[Any]:
    return found.records.column(VALUE).to_pylist()


def reasons(found: ParsedBatch) -> dict[int, str]:
    rows = found.dead_letters.to_pylist()
    return {row["offset"]: row["reason"] for row in rows}


def test_the_last_header_of_the_name_counts() -> None:
    rows: list[Headers | None] = [
        None,
        [("a", b"1")],
        [("__value_schema_id", b"1"), ("a", b"2"), ("__value_schema_id", b"3")],
        [],
        [("__value_schema_id", None)],
        [("__key_schema_id", b"4"), ("__value_schema_id", b"5")],
    ]
    found = pa.array(rows, HEADERS)
    assert last_values(found, CONFLUENT).to_pylist() == [None, None, b"3", None, None, b"5"]
    assert last_values(found[2:], CONFLUENT).to_pylist() == [b"3", None, None, b"5"]
    assert last_values(found[:2], CONFLUENT).to_pylist() == [None, None]


def test_avro_values_with_their_schema_in_a_header_or_before_them(registry: RegistryServer) -> None:
    old, new = (registry.register("orders-value", json.dumps(each)) for each in (ORDER, WIDER))
    wanted = ValueFormat(kind="avro", registry=registry.url, subject="orders-value")
    wide = {"id": 2, "note": "x"}
    found = parsed(
        wanted,
        (written(WIDER, wide), header("AVRO", new)),
        (written(WIDER, wide, new), None),
        (written(ORDER, {"id": 1}), header("AVRO", old)),
        (written(ORDER, {"id": 1}), [("__value_schema_id", b"\0" + old.to_bytes(4, "big"))]),
        (b"\1" + UUID(int=new).bytes + written(WIDER, wide), None),
        (None, header("AVRO", new)),
        (written(ORDER, {"id": 1}), header("AVRO", 99)),
        (written(ORDER, {"id": 1}), [("__value_schema_id", b"\1short")]),
        (written(ORDER, {"id": 1}), [("__value_schema_id", b"\1" + UUID(int=old).bytes + b"\0")]),
    )
    narrow = {"id": 1, "note": None}
    assert values(found) == [wide, wide, narrow, narrow, wide, None]
    assert reasons(found) == {
        6: "ValueError: schema 00000000-0000-0000-0000-000000000063 is not in the registry",
        7: "ValueError: neither the value nor a header begins with a schema id",
        8: "ValueError: the header with the schema id has 1 bytes after the id",
    }
    assert registry.asked.count(f"/schemas/guids/{UUID(int=new)}") == 1


def test_keys_have_headers_of_their_own(registry: RegistryServer) -> None:
    """Confluent's Avro serializer writes a text as a schema that is no record."""
    text, number = (registry.register("orders-key", f'"{kind}"') for kind in ("string", "string"))
    of_value = header("AVRO", 99)
    rows: list[tuple[bytes | None, Headers | None]] = [
        (b"\0" + text.to_bytes(4, "big") + b"\2a", of_value),
        (b"\2b", [*of_value, *header("AVRO", number, field=MessageField.KEY)]),
        (b"\2c", [*of_value, ("apicurio.key.contentId", text.to_bytes(8, "big"))]),
        (None, of_value),
        (b"\2d", of_value),
        (b"\2e", [("apicurio.key.globalId", text.to_bytes(8, "big"))]),
    ]
    found = parsed(ValueFormat(kind="avro", of="key", registry=registry.url, subject="orders-key"), *rows)
    assert found.records.column("key_parsed").to_pylist() == ["a", "b", "c", None]
    assert {row: reason.split(",")[0] for row, reason in reasons(found).items()} == {
        4: "key: ValueError: neither the value nor a header begins with a schema id",
        5: "key: it has the header apicurio.key.globalId",
    }


def test_a_record_is_a_dead_letter_if_either_of_both_is_none() -> None:
    schema = b'{"properties": {"n": {"type": "integer"}}}'
    formats = [ValueFormat(kind="string", of="key"), ValueFormat(kind="json", schema=schema)]
    rows = [(b"a", b'{"n": 1}'), (b"\xff", b'{"n": 2}'), (b"b", b"rubbish"), (b"\xff", b"rubbish"), (None, None)]
    columns: dict[str, list[Any]] = {name: [None] * len(rows) for name in RECORDS.names}
    columns |= {"key": [key for key, _ in rows], "value": [value for _, value in rows], "offset": [0, 1, 2, 3, 4]}
    (batch,) = pa.table(columns, schema=RECORDS).to_batches()

    def parsed_with(on_bad: str) -> ParsedBatch:
        resolved = [resolve(replace(each, on_bad=on_bad)) for each in formats]
        schema = pa.schema([*RECORDS, *((PARSED[each.of], each.columns) for each in resolved)])
        return BatchParser(resolved, schema).parse(batch, 0)

    found = parsed_with("dlq")
    assert found.records.column("key_parsed").to_pylist() == ["a", None]
    assert values(found) == [{"n": 1}, None]
    said = reasons(found)
    assert said[1].startswith("key: UnicodeDecodeError") and "key:" not in said[2] and list(said) == [1, 2, 3]
    assert said[3] == f"{said[1]}; {said[2]}"
    kept = parsed_with("null")
    assert kept.unparsed == 3
    assert kept.records.column("key_parsed").to_pylist() == ["a", None, "b", None, None]
    assert values(kept) == [{"n": 1}, {"n": 2}, None, None, None]
    with pytest.raises(ExportFailed, match="the key at offset 1 can't be parsed as string"):
        parsed_with("fail")


def test_numbers_in_apicurios_headers(registry: RegistryServer) -> None:
    number = registry.register("orders-value", json.dumps(ORDER))
    content_id = (CONTENT_ID, number.to_bytes(8, "big"))
    value = written(ORDER, {"id": 1})
    rows: list[tuple[bytes | None, Headers | None]] = [
        (value, [(ENCODING, b"BINARY"), content_id]),
        (value, [content_id]),
        (value, [(GLOBAL_ID, bytes(8)), content_id]),
        (value, [content_id, *header("AVRO", number)]),
        (None, [(GLOBAL_ID, bytes(8))]),
        (value, [(GLOBAL_ID, number.to_bytes(8, "big"))]),
        # It would be a record with a text of 17 characters.
        (b'{"a":1,"b":"xxxx"}', [content_id, (ENCODING, b"JSON")]),
        (value, [(CONTENT_ID, number.to_bytes(4, "big"))]),
        (value, [(CONTENT_ID, bytes([1]) + number.to_bytes(7, "big"))]),
        (value, [(CONTENT_ID, None)]),
    ]
    found = parsed(ValueFormat(kind="avro", registry=registry.url, subject="orders-value"), *rows)
    assert values(found) == [{"id": 1}] * 4 + [None]
    assert {row: reason.split(",")[0] for row, reason in reasons(found).items()} == {
        5: f"it has the header {GLOBAL_ID}",
        6: f"its header {ENCODING} is not BINARY",
        7: f"the header {CONTENT_ID} is not a valid schema id",
        8: f"the header {CONTENT_ID} is not a valid schema id",
        9: "ValueError: neither the value nor a header begins with a schema id",
    }


def test_json_values_with_their_schema_in_a_header_or_before_them(registry: RegistryServer) -> None:
    number = registry.register("orders-value", '{"type": "object", "properties": {"n": {"type": "integer"}}}', "JSON")
    found = parsed(
        ValueFormat(kind="json", registry=registry.url, subject="orders-value"),
        (b'{"n": 1}', header("JSON", number)),
        (b"\0" + number.to_bytes(4, "big") + b'{"n": 2}', None),
        (b"\1" + UUID(int=number).bytes + b'{"n": 3}', None),
        (None, header("JSON", number)),
        (b'{"n": 4}', [("__value_schema_id", b"\2")]),
        (b'{"n": 5}', None),
        (b"rubbish", header("JSON", number)),
    )
    assert values(found) == [{"n": 1}, {"n": 2}, {"n": 3}, None]
    assert set(reasons(found)) == {4, 5, 6}


def test_protobuf_values_with_schema_and_message_in_a_header_or_before_them(registry: RegistryServer) -> None:
    file = file_of(
        message("Order", field("id", 1, F.TYPE_INT32)),
        message("Other", nested=(message("Inner", field("id", 1, F.TYPE_INT32)),)),
    )
    number = registry.register("orders-value", serialized(file), "PROTOBUF")
    body = class_of(file, name="shop.Order")(id=7).SerializeToString()
    found = parsed(
        ValueFormat(kind="protobuf", registry=registry.url, subject="orders-value"),
        (body, header("PROTOBUF", number, [0])),
        (body, header("PROTOBUF", number, [1, 0])),
        (b"\0" + number.to_bytes(4, "big") + b"\0" + body, None),
        (body, header("PROTOBUF", number)),
        (body, header("PROTOBUF", number, [1, 9])),
    )
    assert values(found) == [{"id": 7}] * 3
    assert set(reasons(found)) == {3, 4}
    assert f"/schemas/guids/{UUID(int=number)}?format=serialized" in registry.asked
