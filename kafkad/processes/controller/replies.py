"""Replies wait until the other processes have applied the change, so that the client then sees it everywhere.

So does the next piece of a request in pieces: requests of others wait until the owners have made the logs of one piece.
The wait is bounded: the change is done, and a hanging process must not hold back the reply.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kafkad.adapters.shared_memory.process_registry import ProcessKey


@dataclass(frozen=True, slots=True)
class WaitingReply:
    """`then` is called when `version` is applied and `deleted` are gone. `peer` is the process whose incarnation gets
    the reply; None: other work, which goes on when that incarnation has ended.
    """

    peer: ProcessKey | None
    then: Callable[[], object]
    version: int
    deleted: tuple[str, ...]
    deadline_ms: int


class Replies:
    """What waits; there is little at any time."""

    def __init__(self) -> None:
        self._waiting: list[WaitingReply] = []

    def add(self, waiting: WaitingReply) -> None:
        self._waiting.append(waiting)

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def next_deadline_ms(self) -> int | None:
        return min((each.deadline_ms for each in self._waiting), default=None)

    def send_ready(self, applied: int, deleting: Collection[str], now_ms: int) -> None:
        """`applied` is the version that every live process has; `deleting` are the deletions under way."""
        ready: list[WaitingReply] = []
        staying: list[WaitingReply] = []
        for each in self._waiting:
            is_done = each.version <= applied and not any(name in deleting for name in each.deleted)
            (ready if is_done or each.deadline_ms <= now_ms else staying).append(each)
        self._waiting = staying
        for each in ready:
            each.then()

    def forget(self, peer: ProcessKey) -> None:
        """That incarnation has ended; the next one has other tokens."""
        self._waiting = [each for each in self._waiting if each.peer != peer]
