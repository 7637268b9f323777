"""Parses and formats the value of one option like Kafka.

Numbers are Java's: no underscores, no hexadecimal, 16, 32 or 64 bits; doubles are formatted as by Double.toString.
"""

import math
import re
from collections.abc import Mapping

Value = bool | int | float | str | tuple[str, ...] | None

_BITS = {"SHORT": 16, "INT": 32, "LONG": 64}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")
_BLANK = " \t\n\x0b\f\r"


def integer(values: Mapping[str, Value], name: str) -> int:
    """The value of an integer option with a default."""
    value = values[name]
    assert isinstance(value, int), f"{name} is an integer option"
    return value


def parse_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("Expected value to be either true or false")


def parse_integer(text: str, type_name: str) -> int:
    limit = 1 << (_BITS[type_name] - 1)
    # Valid numbers have fewer than 30 digits, and the time of int() is quadratic in the length.
    if len(text) <= 30 and _INTEGER.fullmatch(text):
        number = int(text)
        if -limit <= number < limit:
            return number
    raise ValueError(f"Not a number of type {type_name}")


def parse_double(text: str) -> float:
    found = _DOUBLE.fullmatch(text)
    if found is None:
        raise ValueError("Not a number of type DOUBLE")
    return float(found[1])


def parse_list(text: str) -> tuple[str, ...]:
    # No regular expression for blanks around a comma: its time would be quadratic in long runs of blanks.
    return tuple(entry.strip(_BLANK) for entry in text.split(",")) if text else ()


def value_text(value: Value) -> str | None:
    """The text in Kafka's tools."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return _double_text(value)
        case tuple():
            return ",".join(value)
    return str(value)


def _double_text(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    mantissa, _, exponent = f"{number!r}".partition("e")
    if not exponent:
        # repr formats 1e7 to 1e16 without an exponent; at most seventeen digits are significant.
        mantissa, _, exponent = _shortest_scientific(number)
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"


def _shortest_scientific(number: float) -> tuple[str, str, str]:
    for digits in range(17):
        text = f"{number:.{digits}e}"
        if float(text) == number:
            return text.partition("e")
    raise AssertionError(f"{number!r} is not exact with seventeen digits")
