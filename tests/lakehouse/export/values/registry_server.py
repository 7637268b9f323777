"""A schema registry for tests, with the answers of Confluent's: subjects, ids, references, user and password."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

AUTH = "user:se%cret"


class RegistryServer:
    def __init__(self, *, needs_auth: bool = False) -> None:
        self.subjects: dict[str, list[int]] = {}
        self.schemas: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.needs_auth = needs_auth
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, answer = registry.answer(self.path, self.headers.get("Authorization", ""))
                content = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def register(
        self, subject: str, schema: str, kind: str = "AVRO", references: list[dict[str, Any]] | None = None
    ) -> int:
        """Returns its id; its GUID is the same number."""
        row: dict[str, Any] = {"schema": schema, "references": references or []}
        if kind != "AVRO":
            row["schemaType"] = kind
        self.schemas.append(row)
        self.subjects.setdefault(subject, []).append(len(self.schemas))
        return len(self.schemas)

    def answer(self, path: str, auth: str) -> tuple[int, Any]:
        self.asked.append(path)
        if self.needs_auth and auth != f"Basic {base64.b64encode(AUTH.encode()).decode()}":
            return 401, {}
        match path.partition("?")[0].strip("/").split("/"):
            case ["schemas", "guids", guid] if 0 < UUID(guid).int <= len(self.schemas):
                return 200, self.schemas[UUID(guid).int - 1]
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return 200, self.schemas[int(number) - 1]
            case ["subjects", subject, "versions"] if subject in self.subjects:
                return 200, list(range(1, len(self.subjects[subject]) + 1))
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                return 200, self.schemas[self.subjects[subject][int(version) - 1] - 1]
        return 404, {"error_code": 40403}


@contextmanager
def serving(*, needs_auth: bool = False) -> Iterator[RegistryServer]:
    registry = RegistryServer(needs_auth=needs_auth)
    thread = threading.Thread(target=registry.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield registry
    finally:
        registry.server.shutdown()
        thread.join()
        registry.server.server_close()
