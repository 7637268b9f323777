"""The guard agrees with kio on what a whole request is, and lets no array through that is longer than the request."""

from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

import kio.schema
import pytest
from kio.serial import entity_reader, entity_writer

from kafkad.wire.kio_codec import codec
from kafkad.wire.kio_guard import GuardState, Step, apply_cuts
from kafkad.wire.kio_guard import message_guard as guard_of
from kafkad.wire.primitives import MalformedRequest, uvarint
from kafkad.wire.request_limits import Allowance

FOLDER = Path(kio.schema.__file__).parent
REQUESTS = sorted(f"{path.parent.parent.name}.{path.parent.name}" for path in FOLDER.glob("*/v*/request.py"))
SAMPLES: dict[str, Any] = {"string": "text", "bytes": b"bytes", "records": None, "uuid": UUID(int=7), "bool": True}


def message_guard(message: Any, most: int = 1_000) -> Step:
    return guard_of(message, GuardState(Allowance(most)))


def request_class(name: str) -> Any:
    module = import_module(f"kio.schema.{name}.request")
    (state,) = (
        each for each in vars(module).values() if is_dataclass(each) and "request" in str(getattr(each, "__type__", ""))
    )
    return state


def sample(message: Any) -> Any:
    """A message with something in every field: arrays have two elements."""
    return message(**{field.name: sample_of(field.type, field.metadata) for field in fields(message)})


def sample_of(annotation: Any, metadata: Any) -> Any:
    if get_origin(annotation) is UnionType:
        annotation = next(each for each in get_args(annotation) if each is not type(None))
    if get_origin(annotation) is tuple:
        return (sample_of(get_args(annotation)[0], metadata),) * 2
    if is_dataclass(annotation):
        return sample(annotation)
    kind = metadata["kafka_type"]
    if kind.startswith("timedelta"):
        return import_module("datetime").timedelta(seconds=3)
    return SAMPLES.get(kind, 1)


def encoded(entity: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_of_kio_is_walked_to_its_end(name: str) -> None:
    message = request_class(name)
    body = encoded(sample(message))
    assert message_guard(message)(memoryview(body), 0) == len(body) == entity_reader(message)(body, 0)[1]


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", uvarint(4)])
def test_an_array_longer_than_the_request_is_malformed_in_flexible_versions(count: bytes) -> None:
    guard = message_guard(request_class("describe_log_dirs.v2"))
    with pytest.raises(MalformedRequest, match="does not fit"):
        guard(memoryview(count + b"\x00"), 0)


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\x00\x00\x02"])
def test_an_array_longer_than_the_request_is_malformed_in_old_versions(count: bytes) -> None:
    guard = message_guard(request_class("describe_log_dirs.v1"))
    with pytest.raises(MalformedRequest, match="does not fit"):
        guard(memoryview(count + b"\x00"), 0)


def test_an_array_inside_a_tagged_field_is_looked_at_too() -> None:
    message = request_class("broker_heartbeat.v1")
    whole = encoded(sample(message))
    array = b"\x03" + UUID(int=7).bytes * 2
    assert array in whole
    huge = whole.replace(array, b"\xff\xff\xff\xff\x0f" + array[5:])
    with pytest.raises(MalformedRequest, match="does not fit"):
        message_guard(message)(memoryview(huge), 0)


@pytest.mark.parametrize(("length", "is_taken"), [(0x7FFF, True), (0x8000, False)])
def test_strings_are_as_long_as_the_old_versions_can_say(length: int, is_taken: bool) -> None:
    message = request_class("delete_groups.v2")
    body = memoryview(uvarint(2) + uvarint(length + 1) + bytes(length) + b"\0")
    if is_taken:
        assert message_guard(message)(body, 0) == len(body)
        return
    with pytest.raises(MalformedRequest, match="longer than 32767"):
        message_guard(message)(body, 0)


@pytest.mark.parametrize(("version", "null"), [(4, b"\x00"), (3, None)])
def test_an_array_that_must_be_there_may_not_be_null(version: int, null: bytes | None) -> None:
    """ListGroups 4 names states; a null there would be None to whoever goes through them."""
    guard = message_guard(import_module(f"kio.schema.list_groups.v{version}.request").ListGroupsRequest)
    if null is None:
        guard(memoryview(b"\x00"), 0)
        return
    guard(memoryview(b"\x01\x00"), 0)
    with pytest.raises(MalformedRequest, match="null"):
        guard(memoryview(null + b"\x00"), 0)


@pytest.mark.parametrize(("version", "null"), [(4, b"\xff\xff\xff\xff"), (9, b"\x00")])
def test_an_array_that_may_be_missing_may_be_null(version: int, null: bytes) -> None:
    """Metadata without a list of topics asks for all."""
    guard = message_guard(import_module(f"kio.schema.metadata.v{version}.request").MetadataRequest)
    rest = b"\x00" if version < 8 else b"\x00\x00\x00\x00"
    guard(memoryview(null + rest), 0)


def test_tagged_fields_that_nobody_knows_are_passed_over() -> None:
    """KIP-482: a client of tomorrow says more, also inside of an array's elements; what is known is read."""
    unknown = b"\x05\x03abc"
    topics = uvarint(2) + uvarint(2) + b"t" + uvarint(2) + b"\x00\x00\x00\x07" + b"\x01" + unknown
    body = memoryview(topics + b"\x02" + unknown + b"\x09\x00")
    request = codec("describe_log_dirs", 2).decode(body)
    assert [(topic.topic, topic.partitions) for topic in request.topics] == [("t", (7,))]
    again = codec("describe_log_dirs", 2).decode(memoryview(topics[:-6] + b"\x00\x00"))
    assert again == request


@pytest.mark.parametrize("name", REQUESTS)
def test_every_flexible_request_may_end_in_a_field_that_nobody_knows(name: str) -> None:
    """Whatever tagged fields it has itself are kept."""
    message = request_class(name)
    if not message.__flexible__:
        return
    state = GuardState(Allowance(1_000))
    plain = encoded(sample(message))
    known = sum("tag" in field.metadata for field in fields(message))
    at = len(plain) - tag_section_size(message, plain)
    more = plain[:at] + uvarint(known + 1) + plain[at + 1 :] + b"\x63\x01x"
    assert guard_of(message, state)(memoryview(more), 0) == len(more)
    assert entity_reader(message)(apply_cuts(memoryview(more), state.cuts), 0)[0] == sample(message)


def tag_section_size(message: Any, plain: bytes) -> int:
    """How many of the last bytes are the tagged fields of the message itself."""
    bare = [field for field in fields(message) if "tag" in field.metadata]
    if not bare:
        return 1
    empty = {field.name: field.default for field in bare}
    shortened = encoded(replace(sample(message), **empty))
    return len(plain) - len(shortened) + 1


def test_every_byte_but_0_is_true() -> None:
    """As in Apache Kafka; kio rejects other bytes than 0 and 1."""
    described = codec("describe_cluster", 0)
    assert described.decode(memoryview(bytes([7, 0]))).include_cluster_authorized_operations is True
    assert described.decode(memoryview(bytes(2))).include_cluster_authorized_operations is False
    with pytest.raises(MalformedRequest):
        described.decode(memoryview(b""))
