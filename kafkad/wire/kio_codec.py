"""Requests decoded and responses encoded by kio's schemas, for the APIs of admin tools.

kio and its schemas are imported at the first request that needs them: kio costs 130 ms and 21 MB, and a process that no
tool talks to never needs it. A body that can't be decoded raises MalformedRequest, as everywhere, and a
response that can't be encoded raises UnencodableMessage.
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
from kafkad.wire.kio_guard import Found, message_guard, without
from kafkad.wire.primitives import MalformedRequest, UnencodableMessage
from kafkad.wire.request_limits import allowance_of

_NO_THROTTLE = timedelta(0)
_APIS = {"".join(f"_{each.lower()}" if each.isupper() else each for each in api.name)[1:]: api for api in APIS.values()}
"""By the name of kio's package."""


class Codec:
    """One API at one version. Messages have the fields of the newest version; older versions lack some of them."""

    def __init__(self, api: str, version: int) -> None:
        serial = import_module("kio.serial")
        name = "".join(part.capitalize() for part in api.split("_"))
        package = f"kio.schema.{api}.v{version}"
        self._name = name
        self._serial_error: type[Exception] = import_module("kio.serial.errors").SerialError
        self._error_code: Callable[[int], Any] = import_module("kio.schema.errors").ErrorCode
        request = _with_numbers(getattr(import_module(f"{package}.request"), f"{name}Request"))
        self._found = Found(allowance_of(_APIS[api].key))
        self._guard = message_guard(request, self._found)
        self._read = serial.entity_reader(request)
        self._messages = vars(import_module(f"{package}.response"))
        self._response = self._messages[f"{name}Response"]
        self._write = serial.entity_writer(self._response)
        self._serial = serial
        self._request = request

    def decode(self, body: memoryview) -> Any:
        """The request. Bytes after it and unknown tagged fields are ignored, as in Apache Kafka.

        Raises MalformedRequest.
        """
        found = self._found
        found.renew()
        self._guard(body, 0)
        raw = without(body, found.cuts) if found.cuts else bytes(body)
        try:
            return self._read(raw, 0)[0]
        except (self._serial_error, ValueError, KeyError) as error:
            raise MalformedRequest(f"{self._name} request: {error}") from error

    def part(self, nested: str, /, **values: Any) -> Any:
        """A nested message of the response; the field error_code is given as a number.

        None is called nested: mypyc takes a keyword for a positional parameter of the same name.
        """
        message = self._messages[nested]
        known = {field: values[field] for field in _field_names(message) if field in values}
        if "error_code" in known:
            code = int(known["error_code"])
            error_counts.count_error(code)
            known["error_code"] = self._error_code(code)
        return message(**known)

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
        """The body of a request that `decode` gave, or a changed copy of it."""
        buffer = BytesIO()
        self._serial.entity_writer(self._request)(buffer, request)
        return buffer.getvalue()


def _with_numbers(message: type) -> type:
    """kio's class `message`, but durations of 64 bits are numbers of milliseconds: most do not fit a timedelta."""
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
    """kio writes None as the all-zero id."""
    return None if topic_id == NO_TOPIC_ID else topic_id


def milliseconds(duration: timedelta) -> int:
    return round(duration / timedelta(milliseconds=1))
