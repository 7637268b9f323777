"""A schema registry, by Confluent's HTTP interface. What it has said once about an id stays so."""

import base64
import json
import os
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen
from uuid import UUID

from kafkad.export.problems import ExportFailed, RegistryAway

AUTH_VARIABLE = "KAFKAD_SCHEMA_REGISTRY_AUTH"
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
_MOST_REFERENCES = 100


class Schema(NamedTuple):
    """`references` are those that have to be known before it: the name it calls them by, and the schema."""

    kind: str
    text: str
    references: tuple[tuple[str, "Schema"], ...] = ()


class Registry:
    """Raises `RegistryAway` when it does not answer, `ExportFailed` when it refuses us."""

    def __init__(self, url: str, *, timeout_s: float, serialized: bool = False) -> None:
        """`serialized`: Protobuf as its compiler's output, in base64."""
        self._url, self._auth = _without_user(url.rstrip("/"))
        self._timeout_s = timeout_s
        self._format = "?format=serialized" if serialized else ""
        self._by_id: dict[int | UUID, Schema | None] = {}

    def by_id(self, schema_id: int | UUID) -> Schema | None:
        """By id, or by GUID, which newer registries know. None: there is none."""
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
            raise self._is_none(numbers)
        return [self._version(subject, number, 0) for number in sorted(numbers)]

    def _version(self, subject: str, number: int, depth: int) -> Schema:
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{number}{self._format}")
        if found is None:
            raise ExportFailed(f"the schema registry at {self._url} has no version {number} of {subject!r}")
        return self._schema(found, depth)

    def _schema(self, found: Any, depth: int) -> Schema:
        if depth > _MOST_REFERENCES:
            raise ExportFailed(f"the schema registry at {self._url} has schemas that need each other")
        if not isinstance(found, dict) or "schema" not in found:
            raise self._is_none(found)
        references = tuple(
            (each["name"], self._version(each["subject"], each["version"], depth + 1))
            for each in found.get("references") or ()
        )
        return Schema(found.get("schemaType") or AVRO, found["schema"], references)

    def _is_none(self, said: Any) -> ExportFailed:
        return ExportFailed(f"{self._url} is not a schema registry: it returned {json.dumps(said)[:100]}")

    def _get(self, path: str) -> Any:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self._auth:
            headers["Authorization"] = f"Basic {base64.b64encode(self._auth.encode()).decode()}"
        try:
            with urlopen(Request(self._url + path, headers=headers), timeout=self._timeout_s) as answer:
                return json.load(answer)
        except HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            if error.code in {401, 403}:
                raise ExportFailed(f"the schema registry at {self._url} rejects access: set {AUTH_VARIABLE}") from error
            raise RegistryAway(f"the schema registry at {self._url} returned {error.code}") from error
        except (URLError, OSError) as error:
            raise RegistryAway(f"no schema registry at {self._url}: {error}") from error
        except ValueError as error:
            raise ExportFailed(f"{self._url} is not a schema registry: {error}") from error


def with_user(url: str) -> str:
    """The address with user and password from the environment, for tasks elsewhere, which do not have it."""
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
