"""Generates docs/apis.md, the page of supported requests, from the API table.

`python -m kafkad.wire.document` writes docs/apis.md in the current folder.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from kafkad.wire.api_table import APIS, Api

PAGE = "docs/apis.md"

_PREFACE = """\
# Requests

The supported requests, their versions, and the process that handles each ([architecture.md](architecture.md)). This
page is generated from `kafkad/wire/api_table.py` by `python -m kafkad.wire.document`. ApiVersions and the router use
the same table. The ranges are the same as in Apache Kafka 4.3.0.

A request that is not in the table, or has a version outside its range, closes the connection, and the log names it. As
the only exception, ApiVersions with an unknown version gets UNSUPPORTED_VERSION and the supported range, as version 0.

| handled by | process |
|---|---|
| network process | the network process of the connection, from shared memory and files |
| owner | the workers that own the partitions |
| coordinator | the worker that owns the group's or transactional id's partition of the internal topic |
| controller process | the controller process of this broker, which forwards some requests to an elected controller |
"""


_BY_CONTENT = """\
InitProducerId with a transactional id is handled by the worker that coordinates the id. Metadata and FindCoordinator
wait for the controller if a topic must be created first.
"""


def apis_page() -> str:
    """The text of docs/apis.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _PREFACE
    yield "| key | request | versions | flexible from | handled by |"
    yield "|---:|---|---|---:|---|"
    for api in sorted(APIS.values(), key=lambda api: api.key):
        flexible = str(api.flexible_from) if api.flexible_from <= api.max_version else "never"
        yield f"| {api.key} | {api.name} | {_versions(api)} | {flexible} | {api.runs.value} |"
    yield ""
    yield _BY_CONTENT
    for api in APIS.values():
        if api.advertised_min != api.min_version:
            yield (
                f"{api.name} {api.advertised_min} to {api.min_version - 1} are advertised and rejected, as by Apache "
                "Kafka 4:\nsome clients disable compression without them."
            )


def _versions(api: Api) -> str:
    return f"{api.min_version}–{api.max_version}" if api.min_version < api.max_version else str(api.min_version)


def main() -> int:
    Path(PAGE).write_text(apis_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
