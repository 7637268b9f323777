"""Checks an encoded request before kio decodes it: lengths, numbers of elements, nulls.

kio's native decoder allocates memory for the number of elements that a request claims, and aborts the process without
this memory: five bytes could kill a broker process. So this guard checks all lengths along the fields of kio's message
classes first; then the size of the request limits kio's allocations.
"""

from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from kafkad.wire.primitives import I16, LONGEST_STRING, MalformedRequest, read_i32, read_slice, read_uvarint, uvarint
from kafkad.wire.request_limits import Allowance

Step = Callable[[memoryview, int], int]
"""Skips one field at a position and returns the next position. Raises MalformedRequest."""

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


Cut = tuple[int, int, bytes]
"""The start and end of a range of bytes in a message, and the bytes that replace it."""


class GuardState:
    """The state of a check.

    `cuts` are parts that kio would reject, but Apache Kafka accepts: sections with tagged fields that are not in the
    schema (KIP-482), and booleans other than 0 and 1. `allowance` is the number of elements that the request may still
    have.
    """

    __slots__ = ("allowance", "cuts")

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self.cuts: list[Cut] = []

    def renew(self) -> None:
        """Begin the next message."""
        self.allowance.renew()
        self.cuts.clear()


def message_guard(message: Any, state: GuardState) -> Step:
    """A function that skips a whole message of kio's class `message`."""
    flexible = message.__flexible__
    steps = [_field_step(field, state, flexible=flexible) for field in fields(message) if not _is_tagged(field)]
    tagged = {
        field.metadata["tag"]: _field_step(field, state, flexible=True)
        for field in fields(message)
        if _is_tagged(field)
    }
    is_flexible = flexible

    def step(body: memoryview, at: int) -> int:
        for each in steps:
            at = each(body, at)
        return _tags(body, at, tagged, state) if is_flexible else at

    return step


def apply_cuts(body: memoryview, cuts: list[Cut]) -> bytes:
    """The message with its cuts applied."""
    pieces: list[bytes] = []
    at = 0
    for start, end, replacement in cuts:
        pieces += (bytes(body[at:start]), replacement)
        at = end
    return b"".join((*pieces, bytes(body[at:])))


def _is_tagged(field: Field[Any]) -> bool:
    return "tag" in field.metadata


def _field_step(field: Field[Any], state: GuardState, *, flexible: bool) -> Step:
    kafka_type = field.metadata.get("kafka_type", "")
    inner, is_nullable = _without_none(field.type)
    if get_origin(inner) is not tuple:
        return _element_step(inner, kafka_type, state, flexible=flexible, is_nullable=is_nullable)
    element, _ = _without_none(get_args(inner)[0])
    step = _element_step(element, kafka_type, state, flexible=flexible, is_nullable=False)
    size = 0 if is_dataclass(element) else _FIXED_SIZES.get(kafka_type, 0)
    return _array_step(step, state.allowance, size, flexible=flexible, is_nullable=is_nullable)


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) is not UnionType:
        return annotation, False
    (inner,) = (each for each in get_args(annotation) if each is not NoneType)
    return inner, True


def _element_step(element: Any, kafka_type: Any, state: GuardState, *, flexible: bool, is_nullable: bool) -> Step:
    if is_dataclass(element):
        step = message_guard(element, state)
        return _nullable(step) if is_nullable else step
    if kafka_type == "bool":
        return _boolean(state.cuts)
    if kafka_type in _FIXED_SIZES:
        return _fixed(_FIXED_SIZES[kafka_type])
    if kafka_type in _SHORT_LENGTHS:
        return _compact_text if flexible else _short_bytes
    return _compact_bytes if flexible else _long_bytes


def _fixed(size: int) -> Step:
    def step(body: memoryview, at: int) -> int:
        at += size
        if at > len(body):
            raise MalformedRequest(f"a field of {size} bytes does not fit in the rest of the request")
        return at

    return step


def _boolean(cuts: list[Cut]) -> Step:
    """Any byte but 0 is true."""

    def step(body: memoryview, at: int) -> int:
        if at >= len(body):
            raise MalformedRequest("a boolean does not fit in the rest of the request")
        if body[at] > 1:
            cuts.append((at, at + 1, b"\x01"))
        return at + 1

    return step


def _nullable(inner: Step) -> Step:
    """A nullable structure has a byte before it: negative for null."""

    def step(body: memoryview, at: int) -> int:
        marker, at = read_slice(body, at, 1)
        return at if marker[0] >= 0x80 else inner(body, at)

    return step


def _array_step(element: Step, allowance: Allowance, size: int, *, flexible: bool, is_nullable: bool) -> Step:
    """`size` is the size of each element, or 0 if it varies."""

    def step(body: memoryview, at: int) -> int:
        if flexible:
            count, at = read_uvarint(body, at)
            count -= 1
        else:
            count, at = read_i32(body, at)
        if count > len(body) - at:
            raise MalformedRequest(f"an array of {count} elements does not fit in the remaining {len(body) - at} bytes")
        if count < 0 and not is_nullable:
            # kio would return None, which handlers do not expect for a field that is not nullable.
            raise MalformedRequest("an array that is not nullable is null")
        if count > 0:
            allowance.take(count)
            if size:
                return read_slice(body, at, count * size)[1]
            for _ in range(count):
                at = element(body, at)
        return at

    return step


def _compact_bytes(body: memoryview, at: int) -> int:
    length, at = read_uvarint(body, at)
    return read_slice(body, at, max(0, length - 1))[1]


def _compact_text(body: memoryview, at: int) -> int:
    """As in Apache Kafka, strings have at most 2**15 - 1 bytes: coordinators write some of them into records."""
    if at < len(body) and (short := body[at]) < 0x80:
        # Most strings are short and are skipped without a call: strings are half of the work for a commit or heartbeat.
        end = at + (short or 1)
        if end <= len(body):
            return end
    length, at = read_uvarint(body, at)
    if length > LONGEST_STRING + 1:
        raise MalformedRequest(f"a string of {length - 1} bytes is longer than {LONGEST_STRING}")
    return read_slice(body, at, max(0, length - 1))[1]


def _short_bytes(body: memoryview, at: int) -> int:
    raw, at = read_slice(body, at, 2)
    return read_slice(body, at, max(0, I16.unpack(raw)[0]))[1]


def _long_bytes(body: memoryview, at: int) -> int:
    length, at = read_i32(body, at)
    return read_slice(body, at, max(0, length))[1]


def _tags(body: memoryview, at: int, tagged: dict[int, Step], state: GuardState) -> int:
    if at < len(body) and not body[at]:
        return at + 1
    start, known_fields, cuts = at, [], state.cuts
    count, at = read_uvarint(body, at)
    state.allowance.take(count)
    for _ in range(count):
        field_at = at
        tag, at = read_uvarint(body, at)
        size, at = read_uvarint(body, at)
        content, at = read_slice(body, at, size)
        if tag in tagged:
            cuts_before = len(cuts)
            tagged[tag](content, 0)
            if len(cuts) != cuts_before:
                raise MalformedRequest("a tagged field contains an unknown tagged field")
            known_fields.append(bytes(body[field_at:at]))
    if len(known_fields) != count:
        cuts.append((start, at, uvarint(len(known_fields)) + b"".join(known_fields)))
    return at
