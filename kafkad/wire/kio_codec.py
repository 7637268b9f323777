"""Decodes requests and encodes responses with kio's schemas, for the APIs of admin tools.

kio and its schemas are imported for the first such request, because the import costs 130 ms and 21 MB. A malformed
request raises MalformedRequest; a response that can't be encoded raises UnencodableMessage.
"""

from collections.abc import Callable
from dataclasses import field, fields, make_dataclass
from datetime import timedelta
from functools import cache
from importlib import import_module
from io import BytesIO
from struct import error as StructError
from typing import Any
from uuid import UUID

from kafkad.core.types import NO_TOPIC_ID
from kafkad.wire import error_counts
from kafkad.wire.api_table import APIS
from kafkad.wire.kio_guard import GuardState, apply_cuts, message_guard
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage
from kafkad.wire.request_limits import allowance_of

_NO_THROTTLE = timedelta(0)
_APIS = {"".join(f"_{each.lower()}" if each.isupper() else each for each in api.name)[1:]: api for api in APIS.values()}
"""By the name of kio's package."""


class Codec:
    """One API in one version. Fields that the version does not have are ignored in `part` and `encode`."""

    def __init__(self, api: str, version: int) -> None:
        serial = import_module("kio.serial")
        name = "".join(part.capitalize() for part in api.split("_"))
        package = f"kio.schema.{api}.v{version}"
        self._name = name
        self._serial_error: type[Exception] = import_module("kio.serial.errors").SerialError
        self._error_code: Callable[[int], Any] = import_module("kio.schema.errors").ErrorCode
        request = _with_numbers(getattr(import_module(f"{package}.request"), f"{name}Request"))
        self._guard_state = GuardState(allowance_of(_APIS[api].key))
        self._guard = message_guard(request, self._guard_state)
        self._read = serial.entity_reader(request)
        self._messages = vars(import_module(f"{package}.response"))
        self._response = self._messages[f"{name}Response"]
        self._write = serial.entity_writer(self._response)
        self._serial = serial
        self._request = request

    def decode(self, body: memoryview) -> Any:
        """The request. Bytes after the request and unknown tagged fields are ignored, as in Apache Kafka.

        Raises MalformedRequest.
        """
        state = self._guard_state
        state.renew()
        self._guard(body, 0)
        raw = apply_cuts(body, state.cuts) if state.cuts else bytes(body)
        try:
            return self._read(raw, 0)[0]
        except (self._serial_error, ValueError, KeyError) as error:
            raise MalformedRequest(f"{self._name} request: {error}") from error

    def part(self, nested: str, /, **values: Any) -> Any:
        """A nested message of the response; the field error_code is a number.

        No field may be named nested: mypyc takes a keyword for a positional parameter of the same name.
        """
        message = self._messages[nested]
        present = {field: values[field] for field in _field_names(message) if field in values}
        if "error_code" in present:
            code = int(present["error_code"])
            error_counts.count_error(code)
            present["error_code"] = self._error_code(code)
        return message(**present)

    def encode(self, **values: Any) -> bytes:
        """The response body, with a throttle time of 0. Raises UnencodableMessage."""
        buffer = BytesIO()
        response = self.part(f"{self._name}Response", throttle_time=_NO_THROTTLE, **values)
        try:
            self._write(buffer, response)
        except (self._serial_error, StructError, ValueError, TypeError, OverflowError) as error:
            raise UnencodableMessage(f"{self._name} response: {error}") from error
        return buffer.getvalue()

    def encode_request(self, request: Any) -> bytes:
        """The body of a request from `decode`, or of a modified copy of it."""
        buffer = BytesIO()
        self._serial.entity_writer(self._request)(buffer, request)
        return buffer.getvalue()


def _with_numbers(message: type) -> type:
    """kio's class `message` with 64-bit durations as numbers of milliseconds: large values do not fit a timedelta."""
    long = [each.name for each in fields(message) if each.metadata.get("kafka_type") == "timedelta_i64"]
    if not long:
        return message
    number = import_module("kio.static.primitive").i64
    numbers = [(name, number, field(metadata={"kafka_type": "int64"})) for name in long]
    return make_dataclass(message.__name__, numbers, bases=(message,), frozen=True, slots=True, kw_only=True)


@cache
def codec(api: str, version: int) -> Codec:
    """`api` is the name of kio's package, such as describe_cluster."""
    return Codec(api, version)


@cache
def _field_names(message: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(message))


def kio_id(topic_id: UUID) -> UUID | None:
    """kio's value of a topic id: None for the all-zero id."""
    return None if topic_id == NO_TOPIC_ID else topic_id


def milliseconds(duration: timedelta) -> int:
    return round(duration / timedelta(milliseconds=1))
