"""Nodes that can't be read, because another client wrote them. A cluster ignores each of them and uses all others.

The store of a single broker has no other writer: there an unreadable node is an error.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec import MsgspecError

Value = TypeVar("Value")


class UnreadableNodes:
    """`reasons` has the reason by ignored path; `topics` are the names of topics ignored for this."""

    def __init__(self, *, are_errors: bool = False) -> None:
        self.reasons: dict[str, str] = {}
        self.topics: set[str] = set()
        self.are_errors = are_errors

    def read(self, path: str, data: bytes, decode: Callable[[bytes], Value]) -> Value | None:
        """The decoded node; None: it is ignored."""
        try:
            return decode(data)
        except (MsgspecError, ValueError, RecursionError) as error:
            if self.are_errors:
                raise
            self.reasons[path] = str(error)
            return None

    def leave_out(self, path: str, topic: str, reason: str) -> None:
        self.topics.add(topic)
        self.reasons.setdefault(path, reason)
