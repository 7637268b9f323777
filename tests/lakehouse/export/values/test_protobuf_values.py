"""Protobuf in columns, by a descriptor set or a registry."""

import base64
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as F
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.values.format import ValueFormat
from kafkad_lakehouse.export.values.opening import open_parser, resolve
from kafkad_lakehouse.export.values.parsed import Parsed
from tests.lakehouse.export.values.registry_server import RegistryServer, serving

TIME = pa.timestamp("us", "UTC")


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with serving() as running:
        yield running


def message(name: str, *fields: F, nested: tuple[DescriptorProto, ...] = ()) -> DescriptorProto:
    return DescriptorProto(name=name, field=fields, nested_type=nested)


def field(name: str, number: int, kind: Any, type_name: str = "", label: Any = F.LABEL_OPTIONAL) -> F:
    return F(name=name, number=number, type=kind, type_name=type_name or None, label=label)


def file_of(*messages: DescriptorProto, name: str = "shop.proto", needs: tuple[str, ...] = ()) -> FileDescriptorProto:
    known = ("google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto")
    return FileDescriptorProto(
        name=name, package="shop", syntax="proto3", message_type=messages, dependency=(*known, *needs)
    )


def class_of(*files: FileDescriptorProto, name: str) -> Callable[..., Any]:
    pool = DescriptorPool()
    for known in (timestamp_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR):
        pool.AddSerializedFile(known.serialized_pb)
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    kind: Callable[..., Any] = GetMessageClass(pool.FindMessageTypeByName(name))
    return kind


ITEM = message("Item", field("name", 1, F.TYPE_STRING))
COUNTS = message("CountsEntry", field("key", 1, F.TYPE_STRING), field("value", 2, F.TYPE_INT32))
COUNTS.options.map_entry = True
ORDER = file_of(
    ITEM,
    message(
        "Order",
        field("id", 1, F.TYPE_INT32),
        field("large", 2, F.TYPE_UINT64),
        field("raw", 3, F.TYPE_BYTES),
        field("item", 4, F.TYPE_MESSAGE, ".shop.Item"),
        field("tags", 5, F.TYPE_STRING, label=F.LABEL_REPEATED),
        field("at", 6, F.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
        field("limit", 7, F.TYPE_MESSAGE, ".google.protobuf.Int32Value"),
        field("counts", 8, F.TYPE_MESSAGE, ".shop.Order.CountsEntry", F.LABEL_REPEATED),
        nested=(COUNTS,),
    ),
)
COLUMNS = pa.struct(
    [
        ("id", pa.int64()),
        ("large", pa.decimal128(20)),
        ("raw", pa.binary()),
        ("item", pa.struct([("name", pa.string())])),
        ("tags", pa.list_(pa.string())),
        ("at", TIME),
        ("limit", pa.int64()),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)


def parsed(wanted: ValueFormat, *values: bytes | None) -> Parsed:
    return open_parser(resolve(wanted)).parse(pa.array(values, pa.binary()))


def of_file(*files: FileDescriptorProto, name: str = "") -> ValueFormat:
    return ValueFormat(kind="protobuf", schema=FileDescriptorSet(file=files).SerializeToString(), message=name)


def test_fields_are_columns() -> None:
    value = class_of(ORDER, name="shop.Order")(
        id=-5, large=2**64 - 1, raw=b"\xff", item={"name": "bolt"}, tags=["a", "b"], limit={"value": 0}, counts={"x": 1}
    )
    value.at.FromMicroseconds(1_700_000_000_000_001)
    result = parsed(of_file(ORDER, name="shop.Order"), value.SerializeToString(), b"", None)
    assert result.column.type == COLUMNS and result.bad == {}
    full, empty, null = result.column.to_pylist()
    assert full == {
        "id": -5,
        "large": Decimal(2**64 - 1),
        "raw": b"\xff",
        "item": {"name": "bolt"},
        "tags": ["a", "b"],
        "at": value.at.ToDatetime(tzinfo=full["at"].tzinfo),
        "limit": 0,
        "counts": [("x", 1)],
    }
    assert empty == {
        "id": 0,
        "large": Decimal(0),
        "raw": b"",
        "item": None,
        "tags": [],
        "at": None,
        "limit": None,
        "counts": [],
    }
    assert null is None


def test_bytes_that_are_no_message_are_bad() -> None:
    result = parsed(of_file(ORDER, name="shop.Order"), b"\xff\xff", b"\x08\x05", b"\x0a\x05a")
    assert [row and row["id"] for row in result.column.to_pylist()] == [None, 5, None]
    assert set(result.bad) == {0, 2}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (of_file(ORDER), "has to name one of Item, Order"),
        (of_file(ORDER, name="shop.None"), "has no message 'shop.None'"),
        (ValueFormat(kind="protobuf", schema=b"\xff"), "can't be read"),
        (of_file(file_of(message("Empty"))), "has no fields"),
        (of_file(file_of(message("Node", field("next", 1, F.TYPE_MESSAGE, ".shop.Node")))), "recursive"),
    ],
)
def test_what_can_not_be_columns_is_named(wanted: ValueFormat, said: str) -> None:
    with pytest.raises(ExportFailed, match=said):
        resolve(wanted)


def serialized(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_values_name_their_schema_and_their_message_in_it(registry: RegistryServer) -> None:
    item = file_of(ITEM, name="item.proto")
    order = file_of(
        message("Order", field("item", 1, F.TYPE_MESSAGE, ".shop.Item")),
        message("Other", nested=(message("Inner", field("item", 1, F.TYPE_MESSAGE, ".shop.Item")),)),
        needs=("item.proto",),
    )
    registry.register("item", serialized(item), "PROTOBUF")
    references = [{"name": "item.proto", "subject": "item", "version": 1}]
    number = registry.register("orders-value", serialized(order), "PROTOBUF", references)
    body = class_of(item, order, name="shop.Order")(item={"name": "bolt"}).SerializeToString()
    framed = b"\0" + number.to_bytes(4, "big")
    wanted = ValueFormat(kind="protobuf", registry=registry.url, subject="orders-value")
    places = [b"\0", b"\x04\x02\x00", b"\x02\x12", b"\x02\x01", b"\xff\xff\xff\xff\xff\xff", b""]
    result = parsed(wanted, *[framed + place + body for place in places[:-1]], framed)
    assert result.column.to_pylist() == [*[{"item": {"name": "bolt"}}] * 2, *[None] * 4]
    assert set(result.bad) == {2, 3, 4, 5}
    assert "/schemas/ids/2?format=serialized" in registry.asked
