"""Does every array of an encoded request fit into what is left of it, and is it there? Asked before kio decodes it.

kio's native decoder reserves memory for as many elements as a request claims to have, and aborts the process when
there is not that much: five bytes would kill a broker process. So the lengths are walked through first, along the
fields of kio's own message classes; what kio may then reserve is bounded by the size of the request.
"""

from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from kafkad.wire.primitives import I16, MalformedRequest, read_i32, read_slice, read_uvarint, uvarint

Step = Callable[[memoryview, int], int]
"""Steps over one field at a position and returns the next. Raises MalformedRequest."""

_FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_SHORT_LENGTHS = frozenset({"string"})
_LONGEST_STRING = 0x7FFF


Cut = tuple[int, int, bytes]
"""From one byte to another of a message, and what is to stand there instead."""


def message_guard(message: Any, cuts: list[Cut] | None = None) -> Step:
    """Steps over a whole message of kio's class `message`.

    `cuts` gets the sections with tagged fields that the schema does not know (KIP-482), which kio refuses.
    """
    cuts = [] if cuts is None else cuts
    flexible = message.__flexible__
    steps = [_field_step(field, cuts, flexible=flexible) for field in fields(message) if not _is_tagged(field)]
    tagged = {
        field.metadata["tag"]: _field_step(field, cuts, flexible=True) for field in fields(message) if _is_tagged(field)
    }
    is_flexible = flexible

    def step(body: memoryview, at: int) -> int:
        for each in steps:
            at = each(body, at)
        return _tags(body, at, tagged, cuts) if is_flexible else at

    return step


def without(body: memoryview, cuts: list[Cut]) -> bytes:
    """The message with the cuts made."""
    pieces: list[bytes] = []
    at = 0
    for start, end, instead in cuts:
        pieces += (bytes(body[at:start]), instead)
        at = end
    return b"".join((*pieces, bytes(body[at:])))


def _is_tagged(field: Field[Any]) -> bool:
    return "tag" in field.metadata


def _field_step(field: Field[Any], cuts: list[Cut], *, flexible: bool) -> Step:
    kind = field.metadata.get("kafka_type")
    inner, is_nullable = _without_none(field.type)
    if get_origin(inner) is not tuple:
        return _element_step(inner, kind, cuts, flexible=flexible, is_nullable=is_nullable)
    element, _ = _without_none(get_args(inner)[0])
    step = _element_step(element, kind, cuts, flexible=flexible, is_nullable=False)
    return _array_step(step, flexible=flexible, is_nullable=is_nullable)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) is not UnionType:
        return annotation, False
    (inner,) = (each for each in get_args(annotation) if each is not NoneType)
    return inner, True


def _element_step(element: Any, kind: Any, cuts: list[Cut], *, flexible: bool, is_nullable: bool) -> Step:
    if is_dataclass(element):
        step = message_guard(element, cuts)
        return _nullable(step) if is_nullable else step
    if kind in _FIXED_SIZES:
        return _fixed(_FIXED_SIZES[kind])
    if kind in _SHORT_LENGTHS:
        return _compact_text if flexible else _short_bytes
    return _compact_bytes if flexible else _long_bytes


def _fixed(size: int) -> Step:
    def step(body: memoryview, at: int) -> int:
        at += size
        if at > len(body):
            raise MalformedRequest(f"a field of {size} bytes does not fit in what is left of the request")
        return at

    return step


def _nullable(inner: Step) -> Step:
    """A structure that may be missing has a byte before it: negative for null."""

    def step(body: memoryview, at: int) -> int:
        marker, at = read_slice(body, at, 1)
        return at if marker[0] >= 0x80 else inner(body, at)

    return step


def _array_step(element: Step, *, flexible: bool, is_nullable: bool) -> Step:
    def step(body: memoryview, at: int) -> int:
        if flexible:
            count, at = read_uvarint(body, at)
            count -= 1
        else:
            count, at = read_i32(body, at)
        if count > len(body) - at:
            raise MalformedRequest(f"an array of {count} elements does not fit in the {len(body) - at} bytes left")
        if count < 0 and not is_nullable:
            # kio reads it as None, which nobody expects where the schema has no null.
            raise MalformedRequest("an array is null that may not be")
        for _ in range(count):
            at = element(body, at)
        return at

    return step


def _compact_bytes(body: memoryview, at: int) -> int:
    length, at = read_uvarint(body, at)
    return read_slice(body, at, max(0, length - 1))[1]


def _compact_text(body: memoryview, at: int) -> int:
    """As in Apache Kafka no string is longer than the old versions can say: coordinators write some into records."""
    if at < len(body) and (short := body[at]) < 0x80:
        # Most, and worth no call: the strings are half of what walking through a commit or a heartbeat takes.
        end = at + (short or 1)
        if end <= len(body):
            return end
    length, at = read_uvarint(body, at)
    if length > _LONGEST_STRING + 1:
        raise MalformedRequest(f"a string of {length - 1} bytes is longer than {_LONGEST_STRING}")
    return read_slice(body, at, max(0, length - 1))[1]


def _short_bytes(body: memoryview, at: int) -> int:
    raw, at = read_slice(body, at, 2)
    return read_slice(body, at, max(0, I16.unpack(raw)[0]))[1]


def _long_bytes(body: memoryview, at: int) -> int:
    length, at = read_i32(body, at)
    return read_slice(body, at, max(0, length))[1]


def _tags(body: memoryview, at: int, known: dict[int, Step], cuts: list[Cut]) -> int:
    if at < len(body) and not body[at]:
        return at + 1
    start, kept = at, []
    count, at = read_uvarint(body, at)
    for _ in range(count):
        field_at = at
        tag, at = read_uvarint(body, at)
        size, at = read_uvarint(body, at)
        content, at = read_slice(body, at, size)
        if tag in known:
            cuts_before = len(cuts)
            known[tag](content, 0)
            if len(cuts) != cuts_before:
                raise MalformedRequest("a tagged field has a field inside that its schema does not know")
            kept.append(bytes(body[field_at:at]))
    if len(kept) != count:
        cuts.append((start, at, uvarint(len(kept)) + b"".join(kept)))
    return at
