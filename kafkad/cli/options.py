"""Common options of commands, and types of numbers. Has few imports, because every command imports this module.

A number has the range of its field in the protocol: a larger number is wrong usage.
"""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
INT16_MAX = (1 << 15) - 1
INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1
INT16 = click.IntRange(0, INT16_MAX)
INT32 = click.IntRange(0, INT32_MAX)
INT64 = click.IntRange(0, INT64_MAX)
SIGNED_INT64 = click.IntRange(-INT64_MAX, INT64_MAX)

Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


class Seconds(click.FloatRange):
    """A finite time."""

    def __init__(self, least: float, most: float) -> None:
        super().__init__(least, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"expected a number of seconds, found {value!r}", param, ctx)
        return seconds


def timeout_option(default_s: float) -> Callable[[Command], Command]:
    """The option `timeout_s`; in requests it is a number of milliseconds in 32 bits."""
    return click.option(
        "--timeout",
        "timeout_s",
        type=Seconds(0.1, INT32_MAX // 1000),
        default=default_s,
        show_default=True,
        metavar="SECONDS",
        help="Time limit for a response.",
    )


def number_in(text: str, largest: int = INT32_MAX) -> int | None:
    """The decimal number in `text`; None if it is not a number or larger than `largest`."""
    if not text.isascii() or not text.isdigit() or len(text) > len(str(largest)):
        return None
    number = int(text)
    return number if number <= largest else None


def iso_milliseconds(text: str) -> int:
    """A time in ISO 8601, in UTC by default, as milliseconds since 1970. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
