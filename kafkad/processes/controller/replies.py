"""Replies that wait until the other processes have caught up, so that a client finds what it was told.

Waiting is bounded: what was done stays done, and a process that hangs must not keep a client from hearing it.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kafkad.adapters.shared_memory.process_registry import ProcessKey

LONGEST_WAIT_MS = 10_000


@dataclass(frozen=True, slots=True)
class WaitingReply:
    """To be sent to the incarnation of `peer` that asked, when `version` is applied and `deleted` are gone."""

    peer: ProcessKey
    frame: bytes
    version: int
    deleted: tuple[str, ...]
    deadline_ms: int


class Replies:
    """Those that wait, few at any time."""

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
        """That incarnation is over; the next one has other tokens."""
        self._waiting = [reply for reply in self._waiting if reply.peer != peer]
