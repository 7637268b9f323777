"""Arrays of thousands of partitions are read and written in steps, so that whoever does so can do other things between.

The bytes are the same as of `array` and `structure`.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

from kafkad.wire.records.record_schema import (
    Fields,
    Form,
    MalformedRecord,
    Steps,
    array,
    array_length,
    check_element_count,
)

AT_ONCE = 32
"""Elements of an array between two steps: they take less than a millisecond."""

_NOTHING = Fields({}, {})


class _Nothing:
    """What the tagged fields of a structure are written from, as there are none."""


def long_array(element: Form, *, flexible: bool) -> Form:
    """An array that may be long, or one of whose elements may be."""
    whole = array(element, flexible=flexible)
    read_length, write_length = array_length(flexible=flexible)

    def read(data: memoryview, at: int) -> Generator[None, None, tuple[Any, int]]:
        count, at = read_length(data, at)
        if count < 0:
            raise MalformedRecord("an array is null")
        check_element_count(count, data, at)
        values = []
        for done in range(1, count + 1):
            if element.steps is None:
                value, at = element.read(data, at)
            else:
                value, at = yield from element.steps.read(data, at)
            values.append(value)
            if not done % AT_ONCE:
                yield
        return tuple(values), at

    def write(values: Sequence[Any]) -> Generator[None, None, bytes]:
        parts = [write_length(len(values))]
        for done, value in enumerate(values, 1):
            parts.append((yield from write_in_steps(element, value)))
            if not done % AT_ONCE:
                yield
        return b"".join(parts)

    return Form(whole.read, whole.write, Steps(read, write))


Written = tuple[str, Callable[[Any], Any], Form]
"""The name of a field, how it is found in what is written, and its form."""


def long_structure(made: Callable[..., Any], fields: Sequence[Written], *, flexible: bool) -> Steps:
    """A structure with a field that is long."""

    def read(data: memoryview, at: int) -> Generator[None, None, tuple[Any, int]]:
        values: dict[str, Any] = {}
        for name, _, form in fields:
            values[name], at = yield from read_in_steps(form, data, at)
        if flexible:
            _, at = _NOTHING.read(data, at)
        return made(**values), at

    def write(entity: Any) -> Generator[None, None, bytes]:
        parts = []
        for _, value, form in fields:
            parts.append((yield from write_in_steps(form, value(entity))))
        if flexible:
            parts.append(_NOTHING.write(_Nothing()))
        return b"".join(parts)

    return Steps(read, write)


def read_in_steps(form: Form, data: memoryview, at: int) -> Generator[None, None, tuple[Any, int]]:
    """At once if it is short."""
    if form.steps is None:
        return form.read(data, at)
    return (yield from form.steps.read(data, at))


def write_in_steps(form: Form, value: Any) -> Generator[None, None, bytes]:
    if form.steps is None:
        return form.write(value)
    return (yield from form.steps.write(value))
