"""Requests as kio has them, in which one string, bytes or array field has an odd value, and every other a usual one."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin
from uuid import UUID

from kafkad.wire.primitives import LONGEST_STRING

LONGEST, TOO_LONG = "a" * LONGEST_STRING, "a" * (LONGEST_STRING + 1)
NUMBERS: Mapping[str, int] = {
    "generation_id_or_member_epoch": -1,
    "committed_leader_epoch": -1,
    "member_epoch": 0,
    "config_operation": 0,
    "election_type": 0,
    "partitions": 0,
    "partition_index": 0,
    "partition_indexes": 0,
    "producer_epoch": 0,
}
"""What fields of these names have; other numbers are 1."""
ARRAY, STRING, BYTES, RECORDS = "array", "string", "bytes", "records"


class SweptField(NamedTuple):
    """A string, bytes or array field at this path, from the request inwards; an array of strings is two of them."""

    path: tuple[str, ...]
    kind: str
    is_nullable: bool


class Count(NamedTuple):
    """The value of an array: so many equal elements."""

    elements: int


class Swept(NamedTuple):
    """The field at this path has this value: None, a `Count` for an array, or what each element is."""

    path: tuple[str, ...]
    value: Any


NOTHING = Swept((), None)


def swept_fields(message: Any, path: tuple[str, ...] = ()) -> Iterator[SweptField]:
    """All of a request of kio's class `message`."""
    for field in fields(message):
        here = (*path, field.name)
        inner, is_nullable = _without_none(field.type)
        element, is_array = _element(inner)
        kind = field.metadata.get("kafka_type")
        if is_array:
            yield SweptField(here, ARRAY, is_nullable)
        if is_dataclass(element):
            yield from swept_fields(element, here)
        elif kind in (STRING, BYTES, RECORDS):
            yield SweptField(here, kind, is_nullable and not is_array)


def made(
    message: Any, swept: Swept, values: Mapping[str, Any], path: tuple[str, ...] = (), *, elements: int = 1
) -> Any:
    """The request with `elements` in each of its arrays; `values` of fields by name."""
    found: dict[str, Any] = {}
    for field in fields(message):
        here = (*path, field.name)
        element, is_array = _element(_without_none(field.type)[0])
        value = swept.value if swept.path == here else NOTHING
        if value is None:
            found[field.name] = None
            continue
        count = value.elements if isinstance(value, Count) else elements
        if is_dataclass(element):
            # The elements of very many have none of their own.
            one = made(element, swept, values, here, elements=elements if count <= 1 else 0)
        elif value is NOTHING or isinstance(value, Count):
            one = _usual(field.name, field.metadata.get("kafka_type"), values)
        else:
            one = value
        found[field.name] = (one,) * count if is_array else one
    return message(**found)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) is not UnionType:
        return annotation, False
    (inner,) = (each for each in get_args(annotation) if each is not NoneType)
    return inner, True


def _element(annotation: Any) -> tuple[Any, bool]:
    """The type of an array's elements, or of what is no array."""
    if get_origin(annotation) is not tuple:
        return annotation, False
    return _without_none(get_args(annotation)[0])[0], True


def _usual(name: str, kind: Any, values: Mapping[str, Any]) -> Any:
    if name in values:
        return values[name]
    match kind:
        case "string":
            return "t"
        case "bytes" | "records":
            return b"m"
        case "bool":
            return False
        case "uuid":
            return UUID(int=1)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(seconds=10)
    return NUMBERS.get(name, 1)
