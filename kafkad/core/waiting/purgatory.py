"""Kafka's purgatory: operations that wait until an event or the clock completes them.

An operation watches keys (partition slots, a session) and has a deadline. It ends exactly once: at once, by an event on
one of its keys, by the deadline, or by cancellation. The caller that gets the operation back replies to the client. The
condition is the operation's own rule over a view of the partitions.
"""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from mypy_extensions import mypyc_attr

from kafkad.core.waiting.timing_wheel import Timer, TimingWheel

PURGE_INTERVAL = 1000
"""Number of completed entries in watch lists before a purge is considered (Kafka's purgeInterval)."""

View = TypeVar("View")
View_contra = TypeVar("View_contra", contravariant=True)
Key = TypeVar("Key", bound=Hashable)


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedOperation(Timer, Generic[Key, View_contra]):
    """Keys, a deadline, and the progress of a pending request.

    Slotted, and its own timer. A subclass keeps its progress per key, so that an event checks only one key.
    """

    __slots__ = ("is_completed", "keys")

    def __init__(self, *, keys: Sequence[Key], deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self.keys = keys
        self.is_completed = False

    @abstractmethod
    def try_complete(self, view: View_contra) -> bool:
        """Check every key; True if the operation is complete."""

    @abstractmethod
    def try_complete_key(self, key: Key, view: View_contra) -> bool:
        """Check only `key`, which has changed; True if the operation is complete."""


Operation = TypeVar("Operation", bound=DelayedOperation)  # type: ignore[type-arg]


class Purgatory(Generic[Operation, View]):
    """The pending operations of one kind in one process."""

    def __init__(self, *, view: View, start_ms: int, purge_interval: int = PURGE_INTERVAL) -> None:
        self._view = view
        self._wheel: TimingWheel[Operation] = TimingWheel(start_ms=start_ms)
        self._watchers: dict[Hashable, list[Operation]] = {}
        self._purge_interval = purge_interval
        # Entries in watch lists, and those of them that belong to completed operations.
        self._entries = 0
        self._completed_entries = 0

    def __len__(self) -> int:
        """The number of pending operations (Kafka's NumDelayedOperations)."""
        return len(self._wheel)

    @property
    def watched(self) -> int:
        """Entries in all watch lists (Kafka's PurgatorySize): one operation counts once per key."""
        return self._entries

    def try_complete_else_watch(self, operation: Operation) -> bool:
        """True: the operation is complete. False: it is pending until a later call returns it."""
        if operation.try_complete(self._view):
            operation.is_completed = True
            return True
        watchers = self._watchers
        for key in operation.keys:
            watch_list = watchers.get(key)
            if watch_list is None:
                watchers[key] = [operation]
            else:
                watch_list.append(operation)
        self._entries += len(operation.keys)
        self._wheel.add(operation)
        return False

    def check_and_complete(self, key: Hashable) -> list[Operation]:
        """The operations that a change of `key` completes, in their order of arrival."""
        watch_list = self._watchers.get(key)
        if watch_list is None:
            return []
        completed: list[Operation] = []
        remaining: list[Operation] = []
        for operation in watch_list:
            if operation.is_completed:
                self._completed_entries -= 1
            elif operation.try_complete_key(key, self._view):
                self._finish(operation)
                self._completed_entries -= 1  # the entry of this key is removed below
                completed.append(operation)
            else:
                remaining.append(operation)
        self._replace(key, watch_list, remaining)
        self._purge_if_many()
        return completed

    def expire(self, now_ms: int) -> list[Operation]:
        """Advance the clock; returns the expired operations, earliest deadline first (Kafka's forceComplete)."""
        expired = self._wheel.advance(now_ms)
        for operation in expired:
            operation.is_completed = True
            self._unwatch(operation)
        self._purge_if_many()
        return expired

    def next_expiration_ms(self) -> int | None:
        """The earliest deadline; None if nothing is pending."""
        return self._wheel.next_expiration_ms()

    def set_deadline(self, operation: Operation, deadline_ms: int) -> None:
        """Change the deadline of a pending operation."""
        self._wheel.cancel(operation)
        operation.deadline_ms = deadline_ms
        self._wheel.add(operation)

    def cancel(self, operation: Operation) -> bool:
        """Remove an operation without completion (its connection closed); False if it is not pending."""
        if operation.is_completed:
            return False
        operation.is_completed = True
        self._wheel.cancel(operation)
        self._unwatch(operation)
        self._purge_if_many()
        return True

    def clear(self) -> list[Operation]:
        """Remove and return all operations (the process stops, or the other process died)."""
        pending = self._wheel.clear()
        for operation in pending:
            operation.is_completed = True
        self._watchers.clear()
        self._entries = self._completed_entries = 0
        return pending

    def _finish(self, operation: Operation) -> None:
        operation.is_completed = True
        self._wheel.cancel(operation)
        self._completed_entries += len(operation.keys)

    def _unwatch(self, operation: Operation) -> None:
        """Remove watch lists with only this operation, which may be large; a purge removes it from other lists."""
        for key in operation.keys:
            if len(self._watchers[key]) == 1:
                del self._watchers[key]
                self._entries -= 1
            else:
                self._completed_entries += 1

    def _replace(self, key: Hashable, watch_list: list[Operation], remaining: list[Operation]) -> None:
        self._entries -= len(watch_list) - len(remaining)
        if remaining:
            self._watchers[key] = remaining
        else:
            del self._watchers[key]

    def _purge_if_many(self) -> None:
        """Remove completed operations from the watch lists of keys without an event since.

        A purge scans all lists, so it waits until half of the entries are completed: the cost per operation stays
        constant.
        """
        if self._completed_entries <= self._purge_interval or 2 * self._completed_entries < self._entries:
            return
        self._completed_entries = 0
        for key, watch_list in list(self._watchers.items()):
            self._replace(key, watch_list, [entry for entry in watch_list if not entry.is_completed])
