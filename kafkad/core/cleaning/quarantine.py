"""Logs that can't be cleaned, with growing pauses between attempts, so that their damage is logged rarely."""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

FIRST_PAUSE_MS = 60_000
LONGEST_PAUSE_MS = 3_600_000

Key = TypeVar("Key", bound=Hashable)


class Quarantine(Generic[Key]):
    """The keys of failed logs; `now_ms` is on the monotonic clock."""

    def __init__(self) -> None:
        self._until_ms: dict[Key, tuple[int, int]] = {}
        """The time of the next attempt, and the pause before it."""

    def __len__(self) -> int:
        return len(self._until_ms)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._until_ms)

    def failed(self, key: Key, now_ms: int) -> int:
        """Returns the pause before the next attempt, in milliseconds."""
        last = self._until_ms.get(key)
        pause_ms = FIRST_PAUSE_MS if last is None else min(2 * last[1], LONGEST_PAUSE_MS)
        self._until_ms[key] = (now_ms + pause_ms, pause_ms)
        return pause_ms

    def is_closed(self, key: Key, now_ms: int) -> bool:
        """Whether the next attempt has to wait."""
        last = self._until_ms.get(key)
        return last is not None and now_ms < last[0]

    def until_ms(self, key: Key) -> int | None:
        """The time of the next attempt; None for a log that has not failed."""
        last = self._until_ms.get(key)
        return None if last is None else last[0]

    def release(self, is_selected: Callable[[Key], bool]) -> None:
        """Remove the selected logs: they have changed or were cleaned."""
        self._until_ms = {key: row for key, row in self._until_ms.items() if not is_selected(key)}
