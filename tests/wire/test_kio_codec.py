"""Durations and times in requests, at the limits of their fields: Apache Kafka reads each as a number."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import reduce
from typing import Any, NamedTuple, get_args

import pytest

from kafkad.wire.api_table import APIS
from kafkad.wire.kio_codec import codec, milliseconds
from tests.handlers.kio_calls import KioApi, versions_of
from tests.tools.field_sweep import NOTHING, made

MARK_MS = 0x1234567
LONGEST_OF_PYTHON_MS = 86_400_000 * 1_000_000_000 - 1


class TimeField(NamedTuple):
    version: int
    path: tuple[str, ...]
    size: int


def _name(key: int) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in APIS[key].name)[1:]


def _request_class(key: int, version: int) -> Any:
    api = KioApi(_name(key), version)
    return getattr(api._request, f"{api._name}Request")


def _within(message: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    for field in fields(message):
        kind = field.metadata.get("kafka_type") or ""
        if kind.startswith(("timedelta", "datetime")):
            yield (*path, field.name), {"i32": 4, "i64": 8}[kind.rpartition("_")[2]]
        for nested in (field.type, *get_args(field.type)):
            if is_dataclass(nested):
                yield from _within(nested, (*path, field.name))


TIME_FIELDS = {
    key: [TimeField(version, *found) for version in versions_of(key) for found in _within(_request_class(key, version))]
    for key in APIS
}


def _body(key: int, found: TimeField, value: int) -> memoryview:
    values = {found.path[-1]: timedelta(milliseconds=MARK_MS)}
    request = made(_request_class(key, found.version), NOTHING, values)
    body = bytes(
        KioApi(_name(key), found.version).request(
            **{each.name: getattr(request, each.name) for each in fields(request)}
        )
    )
    mark = MARK_MS.to_bytes(found.size, "big")
    assert body.count(mark) == 1
    return memoryview(body.replace(mark, value.to_bytes(found.size, "big", signed=True)))


@pytest.mark.parametrize("key", [key for key, found in TIME_FIELDS.items() if found], ids=lambda key: APIS[key].name)
def test_time_may_be_any_number_of_its_size(key: int) -> None:
    for found in TIME_FIELDS[key]:
        most = 2 ** (8 * found.size - 1)
        values = [-most, 1 - most, -1, 0, 1, most - 1]
        if found.size == 8:
            values += [LONGEST_OF_PYTHON_MS, LONGEST_OF_PYTHON_MS + 1, 2**53 + 1]
        for value in values:
            request = codec(_name(key), found.version).decode(_body(key, found, value))
            read = reduce(getattr, found.path, request)
            assert (milliseconds(read) if isinstance(read, timedelta) else read) == value
