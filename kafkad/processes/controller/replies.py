"""Replies wait until the other processes have applied the change, so that the client then sees it everywhere.

The wait is bounded: the change is done, and a hanging process must not hold back the reply.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kafkad.adapters.shared_memory.process_registry import ProcessKey


@dataclass(frozen=True, slots=True)
class WaitingReply:
    """To be sent to the incarnation of `peer` that asked, when `version` is applied and `deleted` are gone."""

    peer: ProcessKey
    frame: bytes
    version: int
    deleted: tuple[str, ...]
    deadline_ms: int


class Replies:
    """The waiting replies; there are few at any time."""

    def __init__(self, send: Callable[[ProcessKey, bytes], object]) -> None:
        self._send = send
        self._waiting: list[WaitingReply] = []

    def add(self, reply: WaitingReply) -> None:
        self._waiting.append(reply)

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def next_deadline_ms(self) -> int | None:
        return min((reply.deadline_ms for reply in self._waiting), default=None)

    def send_ready(self, applied: int, deleting: Collection[str], now_ms: int) -> None:
        """`applied` is the version that every live process has; `deleting` are the deletions under way."""
        staying = []
        for reply in self._waiting:
            is_done = reply.version <= applied and not any(name in deleting for name in reply.deleted)
            if is_done or reply.deadline_ms <= now_ms:
                self._send(reply.peer, reply.frame)
            else:
                staying.append(reply)
        self._waiting = staying

    def forget(self, peer: ProcessKey) -> None:
        """That incarnation has ended; the next one has other tokens."""
        self._waiting = [reply for reply in self._waiting if reply.peer != peer]
