"""Kafka's purgatory: operations that wait until an event or the clock completes them.

An operation watches keys (partition slots, a session) and has a deadline. It leaves exactly once: at once, by an event
on one of its keys, by the deadline, or cancelled. The caller that gets it back answers the client. When it is complete
is the operation's own rule over a view of the partitions; nothing here knows one.
"""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from mypy_extensions import mypyc_attr

from kafkad.core.waiting.timing_wheel import Timer, TimingWheel

PURGE_INTERVAL = 1000
"""So many finished entries may stay in watch lists before a sweep is considered (Kafka's purgeInterval)."""

View = TypeVar("View")
View_contra = TypeVar("View_contra", contravariant=True)
Key = TypeVar("Key", bound=Hashable)


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedOperation(Timer, Generic[Key, View_contra]):
    """Keys, a deadline, and the progress of a waiting request.

    Plain and slotted: it is its own timer. A subclass keeps what it has seen per key, so that an event costs one look
    at one key.
    """

    __slots__ = ("is_completed", "keys")

    def __init__(self, *, keys: Sequence[Key], deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self.keys = keys
        self.is_completed = False

    @abstractmethod
    def try_complete(self, view: View_contra) -> bool:
        """Look at every key; True when the operation is complete."""

    @abstractmethod
    def try_complete_key(self, key: Key, view: View_contra) -> bool:
        """Look again at `key`, which has just changed; the other keys have not."""


Operation = TypeVar("Operation", bound=DelayedOperation)  # type: ignore[type-arg]


class Purgatory(Generic[Operation, View]):
    """The waiting operations of one kind in one process."""

    def __init__(self, *, view: View, start_ms: int, purge_interval: int = PURGE_INTERVAL) -> None:
        self._view = view
        self._wheel: TimingWheel[Operation] = TimingWheel(start_ms=start_ms)
        self._watchers: dict[Hashable, list[Operation]] = {}
        self._purge_interval = purge_interval
        # Entries in watch lists, and how many of them belong to operations that have left.
        self._listed = 0
        self._lingering = 0

    def __len__(self) -> int:
        """Operations that wait (Kafka's NumDelayedOperations)."""
        return len(self._wheel)

    @property
    def watched(self) -> int:
        """Entries in all watch lists (Kafka's PurgatorySize): one operation counts once per key."""
        return self._listed

    def try_complete_else_watch(self, operation: Operation) -> bool:
        """True: complete already, answer it now. False: it waits here until a later call returns it."""
        if operation.try_complete(self._view):
            operation.is_completed = True
            return True
        watchers = self._watchers
        for key in operation.keys:
            watching = watchers.get(key)
            if watching is None:
                watchers[key] = [operation]
            else:
                watching.append(operation)
        self._listed += len(operation.keys)
        self._wheel.add(operation)
        return False

    def check_and_complete(self, key: Hashable) -> list[Operation]:
        """`key` has changed: the operations that this completes, in the order in which they came."""
        watching = self._watchers.get(key)
        if watching is None:
            return []
        completed: list[Operation] = []
        remaining: list[Operation] = []
        for operation in watching:
            if operation.is_completed:
                self._lingering -= 1
            elif operation.try_complete_key(key, self._view):
                self._finish(operation)
                self._lingering -= 1  # its entry here goes now
                completed.append(operation)
            else:
                remaining.append(operation)
        self._replace(key, watching, remaining)
        self._purge_if_many()
        return completed

    def expire(self, now_ms: int) -> list[Operation]:
        """Move the clock; the operations whose deadline has come, earliest first (forced completion)."""
        expired = self._wheel.advance(now_ms)
        for operation in expired:
            operation.is_completed = True
            self._unlist(operation)
        self._purge_if_many()
        return expired

    def next_expiration_ms(self) -> int | None:
        """The earliest deadline; None when nothing waits."""
        return self._wheel.next_expiration_ms()

    def set_deadline(self, operation: Operation, deadline_ms: int) -> None:
        """Set the deadline of `operation`, which waits here."""
        self._wheel.cancel(operation)
        operation.deadline_ms = deadline_ms
        self._wheel.add(operation)

    def cancel(self, operation: Operation) -> bool:
        """Remove an operation without an answer (its connection closed); False when it has left already."""
        if operation.is_completed:
            return False
        operation.is_completed = True
        self._wheel.cancel(operation)
        self._unlist(operation)
        self._purge_if_many()
        return True

    def clear(self) -> list[Operation]:
        """Remove and return all operations (the process stops, or the clients' side of it died)."""
        waiting = self._wheel.clear()
        for operation in waiting:
            operation.is_completed = True
        self._watchers.clear()
        self._listed = self._lingering = 0
        return waiting

    def _finish(self, operation: Operation) -> None:
        operation.is_completed = True
        self._wheel.cancel(operation)
        self._lingering += len(operation.keys)

    def _unlist(self, operation: Operation) -> None:
        """It has left: lists of its own are removed, as it may hold much memory; from others the sweep takes it."""
        for key in operation.keys:
            if len(self._watchers[key]) == 1:
                del self._watchers[key]
                self._listed -= 1
            else:
                self._lingering += 1

    def _replace(self, key: Hashable, watching: list[Operation], remaining: list[Operation]) -> None:
        self._listed -= len(watching) - len(remaining)
        if remaining:
            self._watchers[key] = remaining
        else:
            del self._watchers[key]

    def _purge_if_many(self) -> None:
        """Remove finished operations from the lists of keys that had no event since.

        A sweep walks all lists, so it waits until half of the entries are finished: its cost per operation stays the
        same however many wait.
        """
        if self._lingering <= self._purge_interval or 2 * self._lingering < self._listed:
            return
        self._lingering = 0
        for key, watching in list(self._watchers.items()):
            self._replace(key, watching, [entry for entry in watching if not entry.is_completed])
