"""Replies wait until the other processes have applied the change, so that the client then sees it everywhere.

The wait is bounded: a hung process must not block the reply.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kafkad.adapters.shared_memory.process_registry import ProcessKey


@dataclass(frozen=True, slots=True)
class WaitingReply:
    """`then` is called when `version` is applied; `peer` gets the reply."""

    peer: ProcessKey
    then: Callable[[], object]
    version: int
    deadline_ms: int


class Replies:
    """The waiting replies, which are few at any time."""

    def __init__(self) -> None:
        self._waiting: list[WaitingReply] = []

    def add(self, waiting: WaitingReply) -> None:
        self._waiting.append(waiting)

    @property
    def next_deadline_ms(self) -> int | None:
        return min((each.deadline_ms for each in self._waiting), default=None)

    def send_ready(self, applied: int, now_ms: int) -> None:
        """`applied` is the version that every live process has."""
        ready: list[WaitingReply] = []
        staying: list[WaitingReply] = []
        for each in self._waiting:
            (ready if each.version <= applied or each.deadline_ms <= now_ms else staying).append(each)
        self._waiting = staying
        for each in ready:
            each.then()

    def forget(self, peer: ProcessKey) -> None:
        """The incarnation of `peer` has exited; the next one has other tokens."""
        self._waiting = [each for each in self._waiting if each.peer != peer]
