"""Does the broker at this address serve requests yet?

Asked with the smallest real request, ApiVersions v0, over a plain socket: no client library's retries.
"""

import socket
import struct

API_VERSIONS = struct.pack(">ihhih", 8 + 2, 18, 0, 1, -1)


def answers(port: int, *, timeout: float = 1.0) -> bool:
    """Whether an ApiVersions request gets a reply without error."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
            connection.sendall(API_VERSIONS)
            head = connection.recv(10, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(head) == 10 and struct.unpack(">iih", head)[1:] == (1, 0)
