"""No request makes a process work for long: its elements are counted while it is read, and end with the limit."""

from collections.abc import Generator
from dataclasses import fields, is_dataclass
from importlib import import_module
from struct import pack
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import pytest

from kafkad.wire.api_table import (
    API_VERSIONS,
    APIS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
)
from kafkad.wire.kio_codec import codec
from kafkad.wire.messages import fetch_request, list_offsets, metadata, offset_for_leader_epoch, produce
from kafkad.wire.primitives import MalformedRequest, uvarint
from kafkad.wire.request_limits import Allowance, most_elements

SIZES = {"int8": 1, "bool": 1, "int16": 2, "error_code": 2, "int32": 4, "timedelta_i32": 4, "uuid": 16}
BY_HAND = {FETCH, LIST_OFFSETS, METADATA, OFFSET_FOR_LEADER_EPOCH, PRODUCE}


def folder_of(key: int) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in APIS[key].name)[1:]


def request_of(key: int, version: int) -> Any:
    return getattr(import_module(f"kio.schema.{folder_of(key)}.v{version}.request"), f"{APIS[key].name}Request")


def without_none(annotation: Any) -> Any:
    if get_origin(annotation) is UnionType:
        return next(each for each in get_args(annotation) if each is not NoneType)
    return annotation


def arrays_of(message: Any) -> list[tuple[str, ...]]:
    """The ways to every array of a message, by the names of fields."""
    found: list[tuple[str, ...]] = []
    for field in fields(message):
        kind = without_none(field.type)
        if "tag" not in field.metadata and get_origin(kind) is tuple:
            element = without_none(get_args(kind)[0])
            found.append((field.name,))
            if is_dataclass(element):
                found += [(field.name, *way) for way in arrays_of(element)]
    return found


def smallest(message: Any, way: tuple[str, ...], count: int) -> bytes:
    """A message whose array at `way` has `count` elements; all else is as small as can be."""
    flexible = message.__flexible__
    out = b"".join(
        smallest_field(field, way, count, flexible) for field in fields(message) if "tag" not in field.metadata
    )
    return out + b"\0" if flexible else out


def smallest_field(field: Any, way: tuple[str, ...], count: int, flexible: bool) -> bytes:
    annotation, kind = without_none(field.type), field.metadata.get("kafka_type", "")
    if get_origin(annotation) is tuple:
        element = without_none(get_args(annotation)[0])
        number = (count if len(way) == 1 else 1) if way[:1] == (field.name,) else 0
        one = smallest(element, way[1:], count) if is_dataclass(element) else smallest_value(kind, flexible)
        return length_of(number, flexible) + one * number
    return b"\xff" if is_dataclass(annotation) else smallest_value(kind, flexible)


def smallest_value(kind: str, flexible: bool) -> bytes:
    if kind == "string":
        return b"\x01" if flexible else b"\0\0"
    if kind in ("bytes", "records"):
        return b"\x01" if flexible else bytes(4)
    return bytes(SIZES.get(kind, 8))


def length_of(number: int, flexible: bool) -> bytes:
    return uvarint(number + 1) if flexible else pack(">i", number)


EVERY_ARRAY = [
    (key, version, way)
    for key, api in APIS.items()
    if key != API_VERSIONS
    for version in {api.min_version, api.max_version}
    for way in arrays_of(request_of(key, version))
]


def read(key: int, version: int, body: bytes) -> object:
    view = memoryview(body)
    match key:
        case api if api not in BY_HAND:
            return codec(folder_of(key), version).decode(view)
        case api if api == PRODUCE:
            return produce.read_request(view, 0, version)
        case api if api == FETCH:
            return ended(fetch_request.read_request(view, 0, version))
        case api if api == METADATA:
            return ended(metadata.read_request(view, version))
        case api if api == LIST_OFFSETS:
            return ended(list_offsets.read_request(view, version))
    return ended(offset_for_leader_epoch.read_request(view, version))


def ended(steps: Generator[None, Any, object]) -> object:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize(("key", "version", "way"), EVERY_ARRAY)
def test_an_array_of_any_request_may_be_long_but_not_too_long(key: int, version: int, way: tuple[str, ...]) -> None:
    most = most_elements(key)
    request = request_of(key, version)
    read(key, version, smallest(request, way, most - len(way) + 1))
    with pytest.raises(MalformedRequest, match="at most"):
        read(key, version, smallest(request, way, most + 1))


@pytest.mark.parametrize(("key", "version", "way"), EVERY_ARRAY)
def test_of_an_array_that_is_too_long_nothing_is_read(key: int, version: int, way: tuple[str, ...]) -> None:
    """Its elements are no elements: who reads the first one says something else about it."""
    if len(way) > 1:
        return
    body = smallest(request_of(key, version), way, most_elements(key) + 1)
    bare = smallest(request_of(key, version), way, 1)
    start = next(at for at, (one, other) in enumerate(zip(body, bare, strict=False)) if one != other)
    with pytest.raises(MalformedRequest, match="at most"):
        read(key, version, body[: start + 4] + b"\xff" * (len(body) - start - 4))


@pytest.mark.parametrize(
    "key",
    [key for key, api in APIS.items() if api.flexible_from <= api.max_version and key not in (API_VERSIONS, PRODUCE)],
)
def test_tagged_fields_are_counted_as_elements_are(key: int) -> None:
    """Nobody looks at those that ApiVersions and Produce end with."""
    version = APIS[key].max_version
    request = request_of(key, version)
    body = smallest(request, (), 0)
    tags = 200_000
    with pytest.raises(MalformedRequest, match="at most"):
        read(key, version, body[:-1] + uvarint(tags) + b"\x63\x00" * tags)


def test_what_is_null_takes_nothing() -> None:
    allowance = Allowance(2)
    allowance.take(-1)
    allowance.take(2)
    with pytest.raises(MalformedRequest, match="3 elements or more, at most 2 are allowed"):
        allowance.take(1)
    allowance.renew()
    allowance.take(2)
