"""Reads and writes arrays of thousands of partitions in steps, so that the process can do other work in between.

The encoding is the same as in `array` and `structure`.
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
"""Elements per step, which takes less than a millisecond."""

_NO_FIELDS = Fields({}, {})


class _NoTaggedFields:
    """A value without tagged fields."""


def long_array(element: Form, *, flexible: bool) -> Form:
    """An array that may be long, or may have long elements."""
    whole = array(element, flexible=flexible)
    read_length, write_length = array_length(flexible=flexible)

    def read(data: memoryview, at: int) -> Generator[None, None, tuple[Any, int]]:
        count, at = read_length(data, at)
        if count < 0:
            raise MalformedRecord("an array is null")
        check_element_count(count, data, at)
        values = []
        for number in range(1, count + 1):
            if element.steps is None:
                value, at = element.read(data, at)
            else:
                value, at = yield from element.steps.read(data, at)
            values.append(value)
            if not number % AT_ONCE:
                yield
        return tuple(values), at

    def write(values: Sequence[Any]) -> Generator[None, None, bytes]:
        parts = [write_length(len(values))]
        for number, value in enumerate(values, 1):
            parts.append((yield from write_in_steps(element, value)))
            if not number % AT_ONCE:
                yield
        return b"".join(parts)

    return Form(whole.read, whole.write, Steps(read, write))


FieldToWrite = tuple[str, Callable[[Any], Any], Form]
"""The name of a field, the function that takes its value from the structure, and its form."""


def long_structure(create: Callable[..., Any], fields: Sequence[FieldToWrite], *, flexible: bool) -> Steps:
    """A structure with a long field."""

    def read(data: memoryview, at: int) -> Generator[None, None, tuple[Any, int]]:
        values: dict[str, Any] = {}
        for name, _, form in fields:
            values[name], at = yield from read_in_steps(form, data, at)
        if flexible:
            _, at = _NO_FIELDS.read(data, at)
        return create(**values), at

    def write(entity: Any) -> Generator[None, None, bytes]:
        parts = []
        for _, value, form in fields:
            parts.append((yield from write_in_steps(form, value(entity))))
        if flexible:
            parts.append(_NO_FIELDS.write(_NoTaggedFields()))
        return b"".join(parts)

    return Steps(read, write)


def read_in_steps(form: Form, data: memoryview, at: int) -> Generator[None, None, tuple[Any, int]]:
    """Without pauses if the form is short."""
    if form.steps is None:
        return form.read(data, at)
    return (yield from form.steps.read(data, at))


def write_in_steps(form: Form, value: Any) -> Generator[None, None, bytes]:
    if form.steps is None:
        return form.write(value)
    return (yield from form.steps.write(value))
