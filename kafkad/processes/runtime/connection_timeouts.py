"""How long does this broker wait for others: for a connection, and for an answer on it?"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkad.core.settings.values import Value, integer


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTimeouts:
    """`setup_ms` is the time for a connection, twice as long after each that fails, up to `longest_setup_ms`;
    `answer_ms` that for an answer, where the request says nothing else. Without `receive_buffer_bytes` the kernel
    decides.
    """

    setup_ms: int = 10_000
    longest_setup_ms: int = 30_000
    answer_ms: int = 30_000
    receive_buffer_bytes: int | None = None

    def setup_after(self, failures: int) -> int:
        return max(self.setup_ms, min(self.setup_ms << min(failures, 31), self.longest_setup_ms))


def timeouts_of(values: Mapping[str, Value], answers: str) -> ConnectionTimeouts:
    """As the options say. `answers` is the one about answers."""
    return ConnectionTimeouts(
        setup_ms=integer(values, "socket.connection.setup.timeout.ms"),
        longest_setup_ms=integer(values, "socket.connection.setup.timeout.max.ms"),
        answer_ms=integer(values, answers),
    )
