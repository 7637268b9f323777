"""Joins the lists of all shards (ListGroups, ListTransactions). The rows are joined as bytes.

Decoding a hundred thousand rows would delay the other clients of the network process.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from kafkad.core.errors import ErrorCode
from kafkad.wire import api_table
from kafkad.wire.api_table import APIS
from kafkad.wire.primitives import array_length, read_compact_string, read_i32, read_uvarint

_CODE = Struct(">h")
_THROTTLE_BYTES = 4
_NO_TAGS = b"\0"


class _List(NamedTuple):
    """One response: the bytes before its rows, and the rows."""

    code: int
    head: bytes
    length: int
    rows: "memoryview"  # In quotes for mypyc, which does not find this class when it makes a NamedTuple.


def joined(api_key: int, version: int, responses: Sequence[bytes]) -> bytes:
    """One response body.

    The error of one shard is the error of the response, because its rows are missing (as in Apache Kafka).
    """
    is_flexible = version >= APIS[api_key].flexible_from
    lists = [_read(api_key, version, response, is_flexible=is_flexible) for response in responses]
    for each, response in zip(lists, responses, strict=True):
        if each.code != ErrorCode.NONE:
            return response
    count = array_length(sum(each.length for each in lists), flexible=is_flexible)
    return b"".join((lists[0].head, count, *(each.rows for each in lists), _NO_TAGS if is_flexible else b""))


def _read(api_key: int, version: int, response: bytes, *, is_flexible: bool) -> _List:
    body = memoryview(response)
    at = 0 if api_key == api_table.LIST_GROUPS and version == 0 else _THROTTLE_BYTES
    (code,) = _CODE.unpack_from(body, at)
    at += _CODE.size
    if api_key == api_table.LIST_TRANSACTIONS:
        unknown_states, at = read_uvarint(body, at)
        for _ in range(unknown_states - 1):
            _, at = read_compact_string(body, at)
    head = bytes(body[:at])
    if not is_flexible:
        count, at = read_i32(body, at)
        return _List(code, head, count, body[at:])
    length, at = read_uvarint(body, at)
    return _List(code, head, length - 1, body[at : len(body) - len(_NO_TAGS)])
