"""Reads a request body field by field, for less frequent requests that are decoded by hand.

Each request has its own reader. Bytes after a request are ignored, as in Apache Kafka.
"""

from struct import Struct

from kafkad.wire.primitives import (
    I32,
    I64,
    MalformedRequest,
    read_compact_string,
    read_slice,
    read_string,
    read_uvarint,
    skip_tags,
)
from kafkad.wire.request_limits import Allowance
from kafkad.wire.steps import STEP

_I8 = Struct(">b")


class BodyReader:
    """All methods raise MalformedRequest if the body does not match the schema."""

    __slots__ = ("_allowance", "_at", "_body", "_elements", "_flexible")

    def __init__(self, body: memoryview, allowance: Allowance, *, flexible: bool) -> None:
        self._allowance = allowance
        self._body = body
        self._at = 0
        self._elements = 0
        self._flexible = flexible

    def i8(self) -> int:
        return self._number(_I8)

    def i32(self) -> int:
        return self._number(I32)

    def i64(self) -> int:
        return self._number(I64)

    def _number(self, form: Struct) -> int:
        raw, self._at = read_slice(self._body, self._at, form.size)
        value: int = form.unpack(raw)[0]
        return value

    def text(self) -> str:
        """A string that must not be null."""
        read = read_compact_string if self._flexible else read_string
        text, self._at = read(self._body, self._at)
        if text is None:
            raise MalformedRequest("a string is null")
        return text

    def count(self) -> int:
        """The length of an array that must not be null."""
        if self._flexible:
            length, self._at = read_uvarint(self._body, self._at)
            length -= 1
        else:
            length = self.i32()
        if length < 0:
            raise MalformedRequest("an array is null")
        self._allowance.take(length)
        return length

    def is_step_over(self) -> bool:
        """Whether a step of `STEP` elements is complete; called after each element."""
        self._elements += 1
        return self._elements % STEP == 0

    def tags(self) -> None:
        """Skip the tagged fields at the end of a structure in flexible versions."""
        if self._flexible:
            if self._at < len(self._body) and (count := self._body[self._at]):
                self._allowance.take(count)
            self._at = skip_tags(self._body, self._at)
