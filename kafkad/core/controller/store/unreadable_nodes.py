"""Nodes that can't be read: somebody else wrote them. In a cluster each is left out alone, and all else goes on.

The store of a single broker has no other writer: there a node that can't be read is an error.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec import MsgspecError

Value = TypeVar("Value")


class UnreadableNodes:
    """`reasons` say by path why a node is left out; `topics` are the names of topics that this leaves out."""

    def __init__(self, *, are_errors: bool = False) -> None:
        self.reasons: dict[str, str] = {}
        self.topics: set[str] = set()
        self.are_errors = are_errors

    def read(self, path: str, data: bytes, decode: Callable[[bytes], Value]) -> Value | None:
        """None: it is left out."""
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
