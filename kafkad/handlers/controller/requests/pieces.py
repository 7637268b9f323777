"""Splits a request about very many resources into pieces, so that the controller serves other requests in between.

Each piece is a request of its own, and the answers are joined. This works only for requests whose resources do not
depend on each other.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kafkad.wire import api_table
from kafkad.wire.api_table import APIS
from kafkad.wire.joining import join_arrays
from kafkad.wire.kio_codec import codec

_NAMES = {
    api_table.DESCRIBE_CONFIGS: "describe_configs",
    api_table.ALTER_CONFIGS: "alter_configs",
    api_table.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
}
_RESOURCES = 10
"""Resources in a piece: a broker has two hundred options."""
_SMALL_BYTES = 256
_HEAD_SIZE = 4
_MANY = 100


def pieces_of(api_key: int, version: int, body: memoryview) -> list[bytes]:
    """The bodies of the pieces. Raises MalformedRequest."""
    name = _NAMES.get(api_key)
    if name is None or len(body) <= _SMALL_BYTES:
        return [bytes(body)]
    messages = codec(name, version)
    request = messages.decode(body)
    resources = request.resources
    if api_key == api_table.DESCRIBE_CONFIGS:
        resources = distinct(resources)
    if len(resources) <= _RESOURCES:
        return [bytes(body) if resources is request.resources else _with(messages, request, resources)]
    cut = _in_order if api_key == api_table.DESCRIBE_CONFIGS else _cut
    return [_with(messages, request, each) for each in cut(resources)]


def distinct(resources: Sequence[Any]) -> Sequence[Any]:
    """Of very many, a resource that is named twice is described once: both answers would be the same, and large."""
    return resources if len(resources) <= _MANY else tuple(dict.fromkeys(resources))


def _with(messages: Any, request: Any, resources: Sequence[Any]) -> bytes:
    body: bytes = messages.encode_request(replace(request, resources=tuple(resources)))
    return body


def _in_order(resources: Sequence[Any]) -> list[list[Any]]:
    """The same resource may be named with other keys very often: each time costs as much."""
    return [list(resources[at : at + _RESOURCES]) for at in range(0, len(resources), _RESOURCES)]


def _cut(resources: Sequence[Any]) -> list[list[Any]]:
    """Entries for the same resource are in the same piece, as they may be refused as duplicates."""
    named: dict[tuple[int, str], list[Any]] = {}
    for each in resources:
        named.setdefault((each.resource_type, each.resource_name), []).append(each)
    pieces: list[list[Any]] = [[]]
    for same in named.values():
        if len(pieces[-1]) >= _RESOURCES:
            pieces.append([])
        pieces[-1] += same
    return pieces


def joined(api_key: int, version: int, answers: Sequence[bytes]) -> bytes:
    """The response body, joined from those of the pieces in their order."""
    if len(answers) == 1:
        return answers[0]
    return join_arrays(answers, _HEAD_SIZE, flexible=APIS[api_key].flexible_from <= version)
