"""Schemas of the records of coordinators: the encodings of fields, arrays and structures.

The key of a record begins with its type, the value with its version ("Protocol Primitive Types" in the protocol guide
describes the rest). Schemas are built once. Reading arbitrary bytes returns values or raises `MalformedRecord`.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from struct import Struct, error
from typing import Any, NamedTuple
from uuid import UUID

from kafkad.wire.primitives import I16, I32, MalformedRequest, read_slice, read_uvarint, uvarint

_ID_SIZE = 16
_CACHED_BYTES = 1 << 20


class MalformedRecord(ValueError):
    """The bytes do not match the schema of their type and version."""


class Steps(NamedTuple):
    """`read` and `write` of a value that may be long: generators that yield between steps."""

    read: Callable[[memoryview, int], Generator[None, None, tuple[Any, int]]]
    write: Callable[[Any], Generator[None, None, bytes]]


class Form(NamedTuple):
    """The encoding of one value. `read` takes bytes and a position, and returns the value with the next position."""

    read: Callable[[memoryview, int], tuple[Any, int]]
    write: Callable[[Any], bytes]
    steps: Steps | None = None


class Tagged(NamedTuple):
    """An optional field (KIP-482), which is omitted if it has its default."""

    name: str
    form: Form
    default: Any


def number(form: str) -> Form:
    """An integer; `form` is a format character of struct."""
    packed = Struct(">" + form)

    def read(data: memoryview, at: int) -> tuple[int, int]:
        return packed.unpack_from(data, at)[0], at + packed.size

    return Form(read, packed.pack)


INT8, INT32, INT64 = (number(form) for form in "biq")


def _read_uuid(data: memoryview, at: int) -> tuple[UUID, int]:
    raw, at = read_slice(data, at, _ID_SIZE)
    return UUID(bytes=bytes(raw)), at


UUID_FORM = Form(_read_uuid, lambda value: value.bytes)


def text(*, flexible: bool, nullable: bool = False) -> Form:
    inner = _raw(flexible=flexible, length=I16)

    def read(data: memoryview, at: int) -> tuple[str | None, int]:
        raw, at = inner.read(data, at)
        return (None if raw is None else str(raw, "utf-8")), at

    written = Form(read, lambda value: inner.write(None if value is None else value.encode()))
    return written if nullable else _not_null(written, "a string")


def blob(*, flexible: bool) -> Form:
    inner = _raw(flexible=flexible, length=I32)

    def read(data: memoryview, at: int) -> tuple[bytes | None, int]:
        raw, at = inner.read(data, at)
        return (None if raw is None else bytes(raw)), at

    return _not_null(Form(read, inner.write), "a byte array")


def array_length(*, flexible: bool) -> tuple[Callable[[memoryview, int], tuple[int, int]], Callable[[int], bytes]]:
    """Functions that read and write the number of elements before an array; -1 is null."""
    return _length(flexible=flexible, length=I32)


def check_element_count(count: int, data: memoryview, at: int) -> None:
    """Raises MalformedRecord if `count` elements can't fit in the remaining bytes."""
    if count > len(data) - at:
        raise MalformedRecord(f"an array of {count} elements does not fit in the remaining {len(data) - at} bytes")


def array(element: Form, *, flexible: bool, nullable: bool = False) -> Form:
    """An array, which is read as a tuple."""
    read_length, write_length = array_length(flexible=flexible)

    def read(data: memoryview, at: int) -> tuple[tuple[Any, ...] | None, int]:
        count, at = read_length(data, at)
        if count < 0:
            return None, at
        check_element_count(count, data, at)
        values = []
        for _ in range(count):
            value, at = element.read(data, at)
            values.append(value)
        return tuple(values), at

    def write(values: Sequence[Any] | None) -> bytes:
        if values is None:
            return write_length(-1)
        return write_length(len(values)) + b"".join(map(element.write, values))

    return Form(read, write) if nullable else _not_null(Form(read, write), "an array")


def repeated(form: Form) -> Form:
    """Caches the bytes of the last value, for immutable objects that are written many times in a row."""
    last: list[tuple[object, bytes]] = []

    def write(value: Any) -> bytes:
        if last and last[0][0] is value:
            return last[0][1]
        written = form.write(value)
        last[:] = [(value, written)] if len(written) <= _CACHED_BYTES else []
        return written

    return Form(form.read, write)


class Fields:
    """The fields of a structure, key or value in order. `tagged` is None if the version is not flexible."""

    def __init__(self, fields: Mapping[str, Form], tagged: Mapping[int, Tagged] | None = None) -> None:
        self._fields = tuple(fields.items())
        self._tagged = tagged

    def read(self, data: memoryview, at: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        for name, form in self._fields:
            values[name], at = form.read(data, at)
        if self._tagged is None:
            return values, at
        for field in self._tagged.values():
            values[field.name] = field.default
        count, at = read_uvarint(data, at)
        for _ in range(count):
            tag, at = read_uvarint(data, at)
            size, at = read_uvarint(data, at)
            content, at = read_slice(data, at, size)
            tagged_field = self._tagged.get(tag)
            if tagged_field is not None:
                values[tagged_field.name], _ = tagged_field.form.read(content, 0)
        return values, at

    def write(self, entity: object) -> bytes:
        fixed = b"".join(form.write(getattr(entity, name)) for name, form in self._fields)
        if self._tagged is None:
            return fixed
        rows = []
        for tag, field in sorted(self._tagged.items()):
            value = getattr(entity, field.name)
            if value != field.default:
                content = field.form.write(value)
                rows.append(uvarint(tag) + uvarint(len(content)) + content)
        return fixed + uvarint(len(rows)) + b"".join(rows)


def structure(create: Callable[..., Any], fields: Fields) -> Form:
    """A structure that is read as `create(**fields)`."""

    def read(data: memoryview, at: int) -> tuple[Any, int]:
        values, at = fields.read(data, at)
        return create(**values), at

    return Form(read, fields.write)


def nullable(inner: Form) -> Form:
    """A nullable structure in a tagged field: a byte before it marks null."""

    def read(data: memoryview, at: int) -> tuple[Any, int]:
        marker, at = read_uvarint(data, at)
        return inner.read(data, at) if marker else (None, at)

    return Form(read, lambda value: b"\0" if value is None else b"\1" + inner.write(value))


def read_all(fields: Fields, data: memoryview, at: int, what: str) -> dict[str, Any]:
    """The fields of `what` from `at` on. Later bytes are ignored, as in Apache Kafka. Raises MalformedRecord."""
    try:
        return fields.read(data, at)[0]
    except (error, ValueError, MalformedRequest) as cause:
        raise MalformedRecord(f"{what} of {len(data)} bytes: {cause}") from cause


def _not_null(form: Form, what: str) -> Form:
    def read(data: memoryview, at: int) -> tuple[Any, int]:
        value, at = form.read(data, at)
        if value is None:
            raise MalformedRecord(f"{what} is null")
        return value, at

    return Form(read, form.write)


def _raw(*, flexible: bool, length: Struct) -> Form:
    read_length, write_length = _length(flexible=flexible, length=length)

    def read(data: memoryview, at: int) -> tuple[memoryview | None, int]:
        size, at = read_length(data, at)
        return (None, at) if size < 0 else read_slice(data, at, size)

    def write(value: bytes | None) -> bytes:
        return write_length(-1) if value is None else write_length(len(value)) + value

    return Form(read, write)


def _length(
    *, flexible: bool, length: Struct
) -> tuple[Callable[[memoryview, int], tuple[int, int]], Callable[[int], bytes]]:
    def read_plain(data: memoryview, at: int) -> tuple[int, int]:
        return length.unpack_from(data, at)[0], at + length.size

    def read_compact(data: memoryview, at: int) -> tuple[int, int]:
        size, at = read_uvarint(data, at)
        return size - 1, at

    if flexible:
        return read_compact, lambda size: uvarint(size + 1)
    return read_plain, length.pack
