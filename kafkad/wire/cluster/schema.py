"""Schemas of the messages between brokers: fields with their versions, as in Kafka's message files.

The schema of each version is built once. Reading arbitrary bytes returns a value or raises MalformedRequest.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from struct import error
from typing import Any, Generic, NamedTuple, TypeVar

from kafkad.core.errors import ErrorCode
from kafkad.wire.cluster.long_values import long_array, long_structure, read_in_steps, write_in_steps
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage
from kafkad.wire.records.record_schema import (
    INT8,
    INT32,
    INT64,
    UUID_FORM,
    Fields,
    Form,
    array,
    number,
    structure,
    text,
)

NEWEST = 99
Request = TypeVar("Request")
Response = TypeVar("Response")


class Layout(NamedTuple):
    """The properties of a version that select the form of a field."""

    version: int
    is_flexible: bool


FormOf = Callable[[Layout], Form]


class Field(NamedTuple):
    """`value` returns the value to write; by default the attribute `name`. Fields without `is_kept` are not read."""

    name: str
    form: FormOf
    since: int = 0
    until: int = NEWEST
    value: Callable[[Any], Any] | None = None
    is_kept: bool = True


def _always(form: Form) -> FormOf:
    return lambda _layout: form


_INT16 = number("h")
_CODES = {int(code): code for code in ErrorCode}

int8, int32, int64 = _always(INT8), _always(INT32), _always(INT64)
int16 = _always(_INT16)
uuid = _always(UUID_FORM)


def _read_boolean(data: memoryview, at: int) -> tuple[bool, int]:
    value, at = INT8.read(data, at)
    return value != 0, at


def _write_boolean(value: bool) -> bytes:
    return b"\1" if value else b"\0"


boolean = _always(Form(_read_boolean, _write_boolean))


def _read_code(data: memoryview, at: int) -> tuple[ErrorCode, int]:
    code, at = _INT16.read(data, at)
    return _CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR), at


error_code = _always(Form(_read_code, _INT16.write))


def string(layout: Layout) -> Form:
    return text(flexible=layout.is_flexible)


def nullable_string(layout: Layout) -> Form:
    return text(flexible=layout.is_flexible, nullable=True)


def array_of(element: FormOf) -> FormOf:
    return lambda layout: array(element(layout), flexible=layout.is_flexible)


def long_array_of(element: FormOf) -> FormOf:
    """An array that may have thousands of elements, or elements with such arrays."""
    return lambda layout: long_array(element(layout), flexible=layout.is_flexible)


def constant(name: str, form: FormOf, value: Any, since: int = 0, until: int = NEWEST) -> Field:
    """A field that is always written as `value`, and ignored when read."""
    return Field(name, form, since, until, lambda _entity: value, is_kept=False)


def struct_of(create: Callable[..., Any], fields: Sequence[Field]) -> FormOf:
    """A structure that is read as `create(**values)`."""

    def form(layout: Layout) -> Form:
        present = [field for field in fields if field.since <= layout.version <= field.until]
        kept_names = {field.name for field in present if field.is_kept}

        def make(**values: Any) -> Any:
            return create(**{name: value for name, value in values.items() if name in kept_names})

        inner = structure(
            make,
            Fields({field.name: field.form(layout) for field in present}, {} if layout.is_flexible else None),
        )
        forms = [(field.name, field.value or attrgetter(field.name), field.form(layout)) for field in present]
        is_long = any(each.steps for _, _, each in forms)
        steps = long_structure(make, forms, flexible=layout.is_flexible) if is_long else None
        if not any(field.value for field in present):
            return Form(inner.read, inner.write, steps)
        end = b"\x00" if layout.is_flexible else b""

        def write(entity: Any) -> bytes:
            return b"".join([each.write(value(entity)) for _, value, each in forms]) + end

        return Form(inner.read, write, steps)

    return form


@dataclass(frozen=True)
class Message(Generic[Request, Response]):
    """A request with its response. `flexible_from` has the meaning of the API table."""

    name: str
    newest: int
    flexible_from: int
    request: FormOf
    response: FormOf

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_from

    def encode_request(self, request: Request, version: int) -> bytes:
        return self._form(self.request, version).write(request)

    def decode_request(self, body: memoryview, version: int) -> Request:
        """Raises MalformedRequest. Bytes after the request are ignored, as in Apache Kafka."""
        decoded: Request = self._read(self.request, body, version, "request")
        return decoded

    def encode_response(self, response: Response, version: int) -> bytes:
        """Raises UnencodableMessage."""
        try:
            return self._form(self.response, version).write(response)
        except (error, ValueError) as cause:
            raise UnencodableMessage(f"{self.name} response: {cause}") from cause

    def decode_response(self, body: memoryview, version: int) -> Response:
        """Raises MalformedRequest."""
        decoded: Response = self._read(self.response, body, version, "response")
        return decoded

    def decode_request_in_steps(self, body: memoryview, version: int) -> Generator[None, None, Request]:
        """`decode_request` as a generator that yields between its steps."""
        try:
            decoded, _ = yield from read_in_steps(self._form(self.request, version), body, 0)
        except (error, ValueError) as cause:
            raise self._malformed("request", cause) from cause
        request: Request = decoded
        return request

    def encode_response_in_steps(self, response: Response, version: int) -> Generator[None, None, bytes]:
        """`encode_response` as a generator that yields between its steps."""
        try:
            return (yield from write_in_steps(self._form(self.response, version), response))
        except (error, ValueError) as cause:
            raise UnencodableMessage(f"{self.name} response: {cause}") from cause

    def _malformed(self, what: str, cause: Exception) -> MalformedRequest:
        return MalformedRequest(f"{self.name} {what}: {cause}")

    def _read(self, form: FormOf, body: memoryview, version: int, what: str) -> Any:
        try:
            return self._form(form, version).read(body, 0)[0]
        except (error, ValueError) as cause:
            raise self._malformed(what, cause) from cause

    def _form(self, form: FormOf, version: int) -> Form:
        assert 0 <= version <= self.newest, f"{self.name} has no version {version}"
        return _form(form, Layout(version, self.is_flexible(version)))


@cache
def _form(form: FormOf, layout: Layout) -> Form:
    return form(layout)
