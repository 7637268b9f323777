"""Format records for standard output: by a format with tokens, or as one JSON object a line."""

import base64
import json
from collections.abc import Callable
from typing import NamedTuple

from kafkad.core.log.records.record_headers import Headers


class ConsumedRecord(NamedTuple):
    """A record with its topic, partition and offset."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


Formatter = Callable[[ConsumedRecord], bytes]

TOKENS: dict[str, tuple[str, Formatter]] = {
    "%t": ("topic", lambda record: record.topic.encode()),
    "%p": ("partition", lambda record: b"%d" % record.partition),
    "%o": ("offset", lambda record: b"%d" % record.offset),
    "%T": ("timestamp in milliseconds", lambda record: b"%d" % record.timestamp),
    "%k": ("key", lambda record: record.key or b""),
    "%s": ("value", lambda record: record.value or b""),
    "%h": ("headers", lambda record: _headers_text(record.headers)),
    "%%": ("a percent sign", lambda record: b"%"),
}
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


class UnknownToken(ValueError):
    """The format has a `%` without a known token."""


def compile_format(text: str) -> Formatter:
    """The formatter for `text`. Raises UnknownToken."""
    parts: list[Formatter] = []
    literal = ""
    at = 0
    while at < len(text):
        pair = text[at : at + 2]
        if pair in _ESCAPES:
            literal += _ESCAPES[pair]
        elif pair[0] == "%":
            if pair not in TOKENS:
                raise UnknownToken(f"{pair!r} is unknown; expected one of {' '.join(TOKENS)}")
            parts += [_constant(literal), TOKENS[pair][1]]
            literal = ""
        else:
            literal += pair[0]
            at -= 1
        at += 2
    parts.append(_constant(literal))
    return lambda record: b"".join(part(record) for part in parts)


def format_json(record: ConsumedRecord) -> bytes:
    """One JSON object and a line feed; bytes that are not UTF-8 are in `key_base64`, `value_base64`."""
    shown: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    _add_bytes(shown, "key", record.key)
    _add_bytes(shown, "value", record.value)
    headers: list[dict[str, object]] = []
    for name, value in record.headers:
        header: dict[str, object] = {"key": name}
        _add_bytes(header, "value", value)
        headers.append(header)
    shown["headers"] = headers
    return json.dumps(shown, ensure_ascii=False).encode() + b"\n"


def _constant(text: str) -> Formatter:
    encoded = text.encode()
    return lambda _: encoded


def _headers_text(headers: Headers) -> bytes:
    return b",".join(b"%s=%s" % (name.encode(), value or b"") for name, value in headers)


def _add_bytes(shown: dict[str, object], name: str, value: bytes | None) -> None:
    if value is None:
        shown[name] = None
        return
    try:
        shown[name] = value.decode()
    except UnicodeDecodeError:
        shown[f"{name}_base64"] = base64.b64encode(value).decode()
