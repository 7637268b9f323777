"""Values whose schemas are in a real registry, Apicurio: by Confluent's HTTP interface, and with Confluent's client."""

import json
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient

from bench.brokers.processes import WITHIN_S
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.values.format import ValueFormat
from kafkad_lakehouse.export.values.opening import open_parser, resolve
from kafkad_lakehouse.export.values.parsed import Parsed
from kafkad_lakehouse.export.values.protobuf_values import messages_of
from kafkad_lakehouse.export.values.registry import PROTOBUF, Registry, Schema
from tests.lakehouse.export.values.test_avro_values import ORDER, WIDER, written
from tests.lakehouse.export.values.test_framing import Headers, reasons, values
from tests.lakehouse.export.values.test_framing import parsed as in_batch
from tests.tools import apicurio as tool
from tests.tools.apicurio import apicurio, serializer_jars

SERIALIZERS = Path(tool.__file__).parent / "java_sources" / "ApicurioSerializers.java"

ITEM = 'syntax = "proto3"; package shop; message Item { string name = 1; }'
PROTO = """
syntax = "proto3"; package shop;
import "shop/item.proto";
import "google/protobuf/timestamp.proto";
message Order { int32 id = 1; Item item = 2; google.protobuf.Timestamp at = 3; }
"""
JSON_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "integer"}}}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apicurio(tmp_path_factory.mktemp("apicurio")) as address:
        yield address


def register(url: str, subject: str, schema: Any, kind: str, references: list[SchemaReference] | None = None) -> int:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return SchemaRegistryClient({"url": url}).register_schema(subject, Registered(text, kind, references or []))


def parsed(url: str, kind: str, subject: str, *values: bytes | None) -> Parsed:
    wanted = resolve(ValueFormat(kind=kind, registry=url, subject=subject))
    return open_parser(wanted).parse(pa.array(values, pa.binary()))


def test_avro_of_several_versions(url: str) -> None:
    old, new = (register(url, "orders-value", each, "AVRO") for each in (ORDER, WIDER))
    values = (written(ORDER, {"id": 1}, old), written(WIDER, {"id": 2, "note": "x"}, new), b"\0\0\7\0\0rubbish", None)
    found = parsed(url, "avro", "orders-value", *values)
    assert found.column.to_pylist() == [{"id": 1, "note": None}, {"id": 2, "note": "x"}, None, None]
    assert found.bad == {2: "ValueError: schema 458752 is not in the registry"}


def test_avro_that_refers_to_another_schema(url: str) -> None:
    item = {"type": "record", "name": "Item", "fields": [{"name": "name", "type": "string"}]}
    order = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "Item"}]}
    register(url, "item", item, "AVRO")
    number = register(url, "bills-value", order, "AVRO", [SchemaReference("Item", "item", 1)])
    whole = {**order, "fields": [{"name": "item", "type": item}]}
    found = parsed(url, "avro", "bills-value", written(whole, {"item": {"name": "bolt"}}, number))
    assert found.column.to_pylist() == [{"item": {"name": "bolt"}}]


def test_json(url: str) -> None:
    number = register(url, "events-value", JSON_SCHEMA, "JSON")
    found = parsed(url, "json", "events-value", b"\0" + number.to_bytes(4, "big") + b'{"id": 7}', b'{"id": 8}')
    assert found.column.to_pylist() == [{"id": 7}, None]


def test_what_this_registry_does_not_have_is_no_schema(url: str) -> None:
    with pytest.raises(ExportFailed, match="has no subject 'nowhere'"):
        resolve(ValueFormat(kind="avro", registry=url, subject="nowhere"))
    registry = Registry(url, timeout_s=10)
    assert registry.by_id(999_999) is None
    assert registry.by_id(UUID(int=5)) is None


def test_protobuf_that_refers_to_another_schema(url: str) -> None:
    """This registry has it as text only; Confluent's also as its compiler's output."""
    register(url, "shop/item.proto", ITEM, "PROTOBUF")
    references = [SchemaReference("shop/item.proto", "shop/item.proto", 1)]
    number = register(url, "shop-value", PROTO, "PROTOBUF", references)
    message = b"\x08\x07" + b"\x12\x06\x0a\x04bolt" + b"\x1a\x02\x08\x05"
    found = parsed(url, "protobuf", "shop-value", b"\0" + number.to_bytes(4, "big") + b"\0" + message)
    assert found.bad == {}
    at = datetime.fromtimestamp(5, tz=UTC)
    assert found.column.to_pylist() == [{"id": 7, "item": {"name": "bolt"}, "at": at}]


def apicurios_values(url: str) -> dict[str, tuple[bytes, Headers]]:
    """By their names in the Java source."""
    command = [
        *("java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", serializer_jars()),
        *(str(SERIALIZERS), url.replace("ccompat/v7", "registry/v2")),
    ]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=WITHIN_S).stdout
    found: dict[str, tuple[bytes, Headers]] = {}
    for line in printed.splitlines():
        name, value, *headers = line.split("\t")
        pairs = (each.split("=", 1) for each in headers)
        found[name] = b64decode(value), [(key, b64decode(content)) for key, content in pairs]
    return found


def test_values_of_apicurios_own_serializers(url: str) -> None:
    """With content ids they are read; of the others it is said why not."""
    for schema in (ORDER, WIDER):
        register(url, "orders-value", schema, "AVRO")
    # Then its global ids are not its content ids.
    for subject in ("same", "same again", "orders-json"):
        register(url, subject, JSON_SCHEMA, "JSON")
    rows = apicurios_values(url)
    register(url, "orders-protobuf-value", ITEM, "PROTOBUF")
    read: dict[str, Any] = {}
    for kind, subject in (("avro", "orders-value"), ("json", "orders-json"), ("protobuf", "orders-protobuf-value")):
        names = [name for name in rows if name.startswith(kind)]
        wanted = ValueFormat(kind=kind, registry=url, subject=subject)
        found = in_batch(wanted, *(rows[name] for name in names))
        bad = reasons(found)
        good = iter(values(found))
        read |= {name: bad[row] if row in bad else next(good) for row, name in enumerate(names)}
    assert read == {
        "avro contentId": {"id": 7, "note": None},
        "avro globalId": "it has the header apicurio.value.globalId, and Confluent's interface to the registry knows"
        " only apicurio.value.contentId",
        "avro JSON": "its header apicurio.value.encoding is not BINARY",
        "avro 8 bytes": "ValueError: schema 0 is not in the registry",
        "avro 4 bytes": {"id": 7, "note": None},
        "json contentId": {"id": 7},
        "json globalId": {"id": 7},
        "protobuf contentId": (
            "the value is Protobuf of Apicurio's serializer; only Confluent's serializer is supported"
        ),
    }


def test_protobuf_text_that_does_not_compile_is_refused_with_the_place() -> None:
    with pytest.raises(ExportFailed, match=r"can't be compiled: default\.proto:1:\d+: .*Nothing"):
        messages_of(Schema(PROTOBUF, 'syntax = "proto3"; message Order { Nothing id = 1; }'))


def test_a_protobuf_schema_can_not_name_a_file_elsewhere() -> None:
    outside = Schema(PROTOBUF, PROTO, (("../../outside.proto", Schema(PROTOBUF, ITEM)),))
    with pytest.raises(ExportFailed, match=r"imports '\.\./\.\./outside\.proto', which is not a valid file name"):
        messages_of(outside)
