"""ApiVersions, versions 0 to 4: the APIs and features of this broker (KIP-35, KIP-511).

An unsupported version gets a version 0 body with UNSUPPORTED_VERSION and the range of ApiVersions itself; the
connection stays open. The software name and version (from version 3 on) are checked as in Apache Kafka.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple, TypeGuard

from kafkad.core.controller.features import SUPPORTED
from kafkad.core.controller.image import MetadataImage
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import UNKNOWN_SOFTWARE, ClientInformation, RequestContext
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.api_table import API_VERSIONS, APIS
from kafkad.wire.error_counts import count_error
from kafkad.wire.primitives import EMPTY_TAGS, I32, I64, compact_string, read_compact_string, uvarint

_ROW = Struct(">hhh")
_ERROR = Struct(">h")
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_LEVELS = Struct(">hh")
FLEXIBLE_FROM = 3
LEVEL_0_FROM = 4
MAX_SOFTWARE_LENGTH = 128
"""The stored length of the software name and of the version; each connection stores both until it is closed."""


class Finalized(NamedTuple):
    """The finalized features: (feature, level), sorted by name; `epoch` is -1 while they are unknown."""

    epoch: int = -1
    levels: tuple[tuple[str, int], ...] = ()


NOTHING_FINALIZED = Finalized()


def finalized(image: MetadataImage) -> Finalized:
    return Finalized(image.features_epoch, tuple(sorted(image.features.items())))


def handle(body: memoryview, context: RequestContext, view: BrokerView) -> bytes:
    """The response body. Raises MalformedRequest."""
    version = context.version
    if not _is_served(version):
        return unsupported()
    if client_information(body, version) is None:
        count_error(ErrorCode.INVALID_REQUEST)
        return _body(version, ErrorCode.INVALID_REQUEST, NOTHING_FINALIZED)
    return _body(version, ErrorCode.NONE, finalized(view.image))


def client_information(body: memoryview, version: int) -> ClientInformation | None:
    """The client's software name and version; None when they are invalid. Raises MalformedRequest."""
    if version < FLEXIBLE_FROM or not _is_served(version):
        return UNKNOWN_SOFTWARE
    name, position = read_compact_string(body, 0)
    software_version, _ = read_compact_string(body, position)
    if not (_is_software(name) and _is_software(software_version)):
        return None
    return ClientInformation(name[:MAX_SOFTWARE_LENGTH], software_version[:MAX_SOFTWARE_LENGTH])


def _is_served(version: int) -> bool:
    served = APIS[API_VERSIONS]
    return served.min_version <= version <= served.max_version


def _is_software(text: str | None) -> TypeGuard[str]:
    return text is not None and _SOFTWARE.fullmatch(text) is not None


def unsupported() -> bytes:
    """The response to an unsupported version of ApiVersions, in version 0, which every client can read."""
    count_error(ErrorCode.UNSUPPORTED_VERSION)
    served = APIS[API_VERSIONS]
    row = _ROW.pack(API_VERSIONS, served.min_version, served.max_version)
    return _ERROR.pack(ErrorCode.UNSUPPORTED_VERSION) + I32.pack(1) + row


@lru_cache(maxsize=64)
def _body(version: int, error: ErrorCode, features: Finalized) -> bytes:
    apis = [] if error else sorted(APIS.values(), key=lambda api: api.key)
    tags = EMPTY_TAGS if version >= FLEXIBLE_FROM else b""
    rows = b"".join(_ROW.pack(api.key, api.advertised_min, api.max_version) + tags for api in apis)
    count = uvarint(len(apis) + 1) if version >= FLEXIBLE_FROM else I32.pack(len(apis))
    throttle = I32.pack(0) if version >= 1 else b""
    if version >= FLEXIBLE_FROM and not error:
        tags = _pack_features(version, features)
    return _ERROR.pack(error) + count + rows + throttle + tags


def _pack_features(version: int, features: Finalized) -> bytes:
    """Three tagged fields: the broker's supported features, the cluster's finalized features, and their epoch."""
    # Older clients can't read a feature whose lowest level is 0 (KAFKA-17492).
    supported = [(name, levels) for name, levels in SUPPORTED.items() if levels.lowest or version >= LEVEL_0_FROM]
    fields: list[tuple[int, bytes]] = []
    if supported:
        fields.append((0, _pack_levels([(name, levels.lowest, levels.highest) for name, levels in supported])))
    if features.epoch >= 0:
        fields.append((1, I64.pack(features.epoch)))
    if features.levels:
        fields.append((2, _pack_levels([(name, level, level) for name, level in features.levels])))
    packed = b"".join(uvarint(tag) + uvarint(len(content)) + content for tag, content in fields)
    return uvarint(len(fields)) + packed


def _pack_levels(rows: Sequence[tuple[str, int, int]]) -> bytes:
    packed = (compact_string(name) + _LEVELS.pack(first, last) + EMPTY_TAGS for name, first, last in rows)
    return uvarint(len(rows) + 1) + b"".join(packed)
