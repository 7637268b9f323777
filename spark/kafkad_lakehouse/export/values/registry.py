"""A client of a schema registry with Confluent's HTTP interface. Schemas never change, so they are cached by id."""

import base64
import json
import os
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen
from uuid import UUID

from kafkad_lakehouse.export.problems import ExportFailed, RegistryUnavailable

AUTH_VARIABLE = "KAFKAD_SCHEMA_REGISTRY_AUTH"
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
_MAX_DEPTH = 100


class Schema(NamedTuple):
    """`references`: the name in the schema and the referenced schema."""

    kind: str
    text: str
    references: tuple[tuple[str, "Schema"], ...] = ()


class Registry:
    """Raises `RegistryUnavailable` without a response, `ExportFailed` if the registry rejects a request."""

    def __init__(self, url: str, *, timeout_s: float, serialized: bool = False) -> None:
        """`serialized`: request Protobuf schemas as serialized descriptors in base64."""
        self._url, self._auth = _without_user(url.rstrip("/"))
        self._timeout_s = timeout_s
        self._format = "?format=serialized" if serialized else ""
        self._by_id: dict[int | UUID, Schema | None] = {}

    def by_id(self, schema_id: int | UUID) -> Schema | None:
        """The schema with this id, or GUID (newer registries); None if it does not exist."""
        if schema_id not in self._by_id:
            kind = "guids" if isinstance(schema_id, UUID) else "ids"
            found = self._get(f"/schemas/{kind}/{schema_id}{self._format}")
            self._by_id[schema_id] = None if found is None else self._schema(found, 0)
        return self._by_id[schema_id]

    def versions(self, subject: str) -> list[Schema]:
        """All schemas of the subject, the oldest first."""
        numbers = self._get(f"/subjects/{quote(subject, safe='')}/versions")
        if not numbers:
            raise ExportFailed(f"the schema registry at {self._url} has no subject {subject!r}")
        if not isinstance(numbers, list):
            raise self._unexpected_response(numbers)
        return [self._version(subject, number, 0) for number in sorted(numbers)]

    def _version(self, subject: str, number: int, depth: int) -> Schema:
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{number}{self._format}")
        if found is None:
            raise ExportFailed(f"the schema registry at {self._url} has no version {number} of {subject!r}")
        return self._schema(found, depth)

    def _schema(self, found: Any, depth: int) -> Schema:
        if depth > _MAX_DEPTH:
            raise ExportFailed(f"the schema registry at {self._url} has schemas that refer to each other")
        if not isinstance(found, dict) or "schema" not in found:
            raise self._unexpected_response(found)
        references = tuple(
            (each["name"], self._version(each["subject"], each["version"], depth + 1))
            for each in found.get("references") or ()
        )
        return Schema(found.get("schemaType") or AVRO, found["schema"], references)

    def _unexpected_response(self, content: Any) -> ExportFailed:
        return ExportFailed(f"{self._url} is not a schema registry: it returned {json.dumps(content)[:100]}")

    def _get(self, path: str) -> Any:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self._auth:
            headers["Authorization"] = f"Basic {base64.b64encode(self._auth.encode()).decode()}"
        try:
            with urlopen(Request(self._url + path, headers=headers), timeout=self._timeout_s) as response:
                return json.load(response)
        except HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            if error.code in {401, 403}:
                raise ExportFailed(f"the schema registry at {self._url} rejects access: set {AUTH_VARIABLE}") from error
            raise RegistryUnavailable(f"the schema registry at {self._url} returned {error.code}") from error
        except (URLError, OSError) as error:
            raise RegistryUnavailable(f"the schema registry at {self._url} does not respond: {error}") from error
        except ValueError as error:
            raise ExportFailed(f"{self._url} is not a schema registry: {error}") from error


def with_user(url: str) -> str:
    """The address with user and password from the environment, for tasks on machines without these variables."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ExportFailed(f"{url!r} is not an address of a schema registry: expected http://HOST:PORT")
    auth = os.environ.get(AUTH_VARIABLE, "")
    if not auth or "@" in parts.netloc:
        return url
    user, _, password = auth.partition(":")
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{parts.netloc}"))


def _without_user(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)), ":".join(map(unquote, user.split(":", 1))) if at else ""
