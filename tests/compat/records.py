"""A record as every client can express it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Record:
    """What was sent, and what has to come back; `timestamp` in milliseconds."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = field(default=())
    timestamp: int = 1_700_000_000_000
