"""ZooKeeper's multi-read, which reads many nodes in one request and costs little more than one read.

kazoo does not support it. Servers before 3.6 respond with an error and close the connection; the session continues with
the next connection.
"""

import struct
from collections.abc import Sequence
from typing import Final

from kazoo.exceptions import EXCEPTIONS, KazooException

from kafkad.core.coordination_store import Node, NodeStat

NODES_PER_REQUEST = 50
"""Nodes per request: each may have up to 1 MB."""

_GET_DATA: Final = 4
_ERROR: Final = -1
_INT: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">i?i")
"""The header of each entry: operation, end marker, error."""
_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_NO_WATCH: Final = b"\0"


class MultiRead:
    """A request in kazoo's format; the response has a node, or an exception of kazoo, for each path in order.

    The paths include the chroot.
    """

    type: Final = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        request = bytearray()
        for path in self._paths:
            encoded = path.encode()
            request += _HEADER.pack(_GET_DATA, False, -1) + _INT.pack(len(encoded)) + encoded + _NO_WATCH
        return bytes(request + _HEADER.pack(-1, True, -1))

    def deserialize(self, buffer: bytes, offset: int) -> list[Node | KazooException]:
        results: list[Node | KazooException] = []
        while True:
            operation, is_end, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if is_end:
                return results
            (number,) = _INT.unpack_from(buffer, offset)
            offset += _INT.size
            if operation == _ERROR:
                results.append(EXCEPTIONS[number]())
                continue
            # The length of the data, negative for null.
            end = offset + max(number, 0)
            stat = _STAT.unpack_from(buffer, end)
            results.append(Node(bytes(buffer[offset:end]), _stat(stat)))
            offset = end + _STAT.size


def _stat(stat: tuple[int, ...]) -> NodeStat:
    created_id, modified_id, _, _, version, _, _, owner, *_ = stat
    return NodeStat(created_id=created_id, modified_id=modified_id, version=version, ephemeral_owner=owner)
