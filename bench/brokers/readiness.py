"""Check whether a broker responds to requests, with the smallest one, ApiVersions v0, over a plain socket: without the
retries of a client library.
"""

import socket
import struct

API_VERSIONS = struct.pack(">ihhih", 8 + 2, 18, 0, 1, -1)
METADATA_OF_NO_TOPIC = struct.pack(">ihhihi", 8 + 2 + 4, 3, 1, 1, -1, 0)


def responds(port: int, host: str = "127.0.0.1", *, timeout: float = 1.0) -> bool:
    """Whether the broker replies to an ApiVersions request without error."""
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.sendall(API_VERSIONS)
            head = connection.recv(10, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(head) == 10 and struct.unpack(">iih", head)[1:] == (1, 0)


def has_controller(port: int, host: str = "127.0.0.1", *, timeout: float = 1.0) -> bool:
    """Whether a Metadata v1 response has a controller and brokers."""
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.sendall(METADATA_OF_NO_TOPIC)
            (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
            body = connection.recv(size, socket.MSG_WAITALL)
    except (OSError, struct.error):
        return False
    # Correlation id, brokers, controller id, topics (none).
    (brokers,) = struct.unpack_from(">i", body, 4)
    controller, topics = struct.unpack_from(">ii", body, len(body) - 8)
    return bool(brokers > 0 and controller >= 0 and topics == 0)
