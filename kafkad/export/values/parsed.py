"""Parsed values: a column, and which of them are none, with the reason."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

Value = TypeVar("Value")


class Parsed(NamedTuple):
    """`column` is as long as what was parsed, and null where a value was null or is in `bad`: row to reason."""

    column: pa.Array
    bad: Mapping[int, str]


class Parser(Protocol):
    """Of values of one topic. Raises `ExportFailed` only for what is not the value's fault."""

    def parse(self, values: pa.Array, ids: pa.Array | None = None) -> Parsed:
        """Of binary values, nulls among them; `ids` of their schemas are those that stand beside a value."""


MALFORMED = (ValueError, LookupError, EOFError, ArithmeticError, TypeError, AttributeError)
"""What decoders raise for bytes that are no such value."""


def decoded(values: Sequence[Value | None], decode: Callable[[Value], Any], kind: pa.DataType) -> Parsed:
    """One by one; null is null."""
    found: list[Any] = []
    bad: dict[int, str] = {}
    for row, value in enumerate(values):
        try:
            found.append(None if value is None else decode(value))
        except MALFORMED as error:
            found.append(None)
            bad[row] = one_line(error)
    return Parsed(_column(found, kind, bad), bad)


def one_line(error: Exception) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}"[:500] if said else type(error).__name__


def _column(found: list[Any], kind: pa.DataType, bad: dict[int, str]) -> pa.Array:
    try:
        return pa.array(found, kind)
    except (pa.ArrowException, *MALFORMED):
        # One of them does not fit: which?
        for row, value in enumerate(found):
            try:
                pa.array([value], kind)
            except (pa.ArrowException, *MALFORMED) as error:
                found[row] = None
                bad[row] = one_line(error)
        return pa.array(found, kind)
