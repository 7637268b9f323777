"""Replies wait until the other processes have applied the change, so that the client then sees it everywhere.

The next piece of a request in pieces waits, too, until the owners have created the logs of the previous piece. The wait
is bounded: a hung process must not block the reply.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kafkad.adapters.shared_memory.process_registry import ProcessKey


@dataclass(frozen=True, slots=True)
class WaitingReply:
    """`then` is called when `version` is applied and the topics `deleted` are removed. `peer` gets the reply; None:
    other work, which continues when the requesting incarnation has exited.
    """

    peer: ProcessKey | None
    then: Callable[[], object]
    version: int
    deleted: tuple[str, ...]
    deadline_ms: int


class Replies:
    """The waiting replies, which are few at any time."""

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
        """`applied` is the version that every live process has; `deleting` are the pending deletions."""
        ready: list[WaitingReply] = []
        staying: list[WaitingReply] = []
        for each in self._waiting:
            is_done = each.version <= applied and not any(name in deleting for name in each.deleted)
            (ready if is_done or each.deadline_ms <= now_ms else staying).append(each)
        self._waiting = staying
        for each in ready:
            each.then()

    def forget(self, peer: ProcessKey) -> None:
        """The incarnation of `peer` has exited; the next one has other tokens."""
        self._waiting = [each for each in self._waiting if each.peer != peer]
