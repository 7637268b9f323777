"""The timeouts of connections to other brokers: for the connection setup and for a response."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkad.core.settings.values import Value, integer


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTimeouts:
    """`setup_ms` is the timeout of the connection setup; it doubles after each failure, up to `longest_setup_ms`.

    `response_ms` is the timeout of a request without one of its own. Without `receive_buffer_bytes` the kernel chooses
    the size of the receive buffer.
    """

    setup_ms: int = 10_000
    longest_setup_ms: int = 30_000
    response_ms: int = 30_000
    receive_buffer_bytes: int | None = None

    def setup_after(self, failures: int) -> int:
        return max(self.setup_ms, min(self.setup_ms << min(failures, 31), self.longest_setup_ms))


def timeouts_of(values: Mapping[str, Value], request_option: str) -> ConnectionTimeouts:
    """The configured timeouts; `request_option` names the option of the request timeout."""
    return ConnectionTimeouts(
        setup_ms=integer(values, "socket.connection.setup.timeout.ms"),
        longest_setup_ms=integer(values, "socket.connection.setup.timeout.max.ms"),
        response_ms=integer(values, request_option),
    )
