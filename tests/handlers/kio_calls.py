"""Requests as kio encodes them and replies as kio reads them: the other side of every handler, not of our making."""

from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from io import BytesIO
from typing import Any

from kio.serial import entity_reader, entity_writer

from kafkad.wire.api_table import APIS


def versions_of(api_key: int) -> range:
    api = APIS[api_key]
    return range(api.min_version, api.max_version + 1)


class KioApi:
    """One API at one version; `api` is kio's folder name."""

    def __init__(self, api: str, version: int) -> None:
        self.version = version
        self._name = "".join(part.capitalize() for part in api.split("_"))
        self._request = import_module(f"kio.schema.{api}.v{version}.request")
        self._response = import_module(f"kio.schema.{api}.v{version}.response")

    def part(self, name: str, /, **values: Any) -> Any:
        """A nested message of the request, of those `values` that this version has."""
        return _make(getattr(self._request, name), values)

    def request(self, **values: Any) -> memoryview:
        return memoryview(_write(self.part(f"{self._name}Request", **values)))

    def response_part(self, name: str, /, **values: Any) -> Any:
        return _make(getattr(self._response, name), values)

    def response(self, **values: Any) -> bytes:
        return _write(self.response_part(f"{self._name}Response", **values))

    def read(self, body: bytes) -> Any:
        """The response, which must end where `body` ends."""
        return _read(getattr(self._response, f"{self._name}Response"), body)

    def read_request(self, body: bytes) -> Any:
        return _read(getattr(self._request, f"{self._name}Request"), body)


def _make(message: Callable[..., Any], values: dict[str, Any]) -> Any:
    names = {each.name for each in fields(message)}  # type: ignore[arg-type]
    return message(**{name: value for name, value in values.items() if name in names})


def _write(entity: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def _read(message: Any, body: bytes) -> Any:
    entity, size = entity_reader(message)(bytes(body), 0)
    assert size == len(body), f"{len(body) - size} bytes are left"
    return entity
