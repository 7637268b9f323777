"""Parsed values: a column, and the reasons for unparsable values."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

Value = TypeVar("Value")


class Parsed(NamedTuple):
    """`column` has one row for each value, null for null and unparsable values. `bad` maps rows to reasons."""

    column: pa.Array
    bad: Mapping[int, str]


class Parser(Protocol):
    """Parses values of one topic. Raises `ExportFailed` only for errors other than invalid values."""

    def parse(self, values: pa.Array, ids: pa.Array | None = None) -> Parsed:
        """Parse binary values, which may be null; `ids` are the schema ids from headers."""


MALFORMED = (ValueError, LookupError, EOFError, ArithmeticError, TypeError, AttributeError)
"""The exceptions of decoders for invalid values."""


def decoded(values: Sequence[Value | None], decode: Callable[[Value], Any], kind: pa.DataType) -> Parsed:
    """Decode the values one by one; null stays null."""
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
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__


def _column(found: list[Any], kind: pa.DataType, bad: dict[int, str]) -> pa.Array:
    try:
        return pa.array(found, kind)
    except (pa.ArrowException, *MALFORMED):
        # Find the values that do not fit the type.
        for row, value in enumerate(found):
            try:
                pa.array([value], kind)
            except (pa.ArrowException, *MALFORMED) as error:
                found[row] = None
                bad[row] = one_line(error)
        return pa.array(found, kind)
