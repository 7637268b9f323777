"""Which logs can't be cleaned, and when is each tried again? After pauses that grow, so that damage is told rarely."""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

FIRST_PAUSE_MS = 60_000
LONGEST_PAUSE_MS = 3_600_000

Key = TypeVar("Key", bound=Hashable)


class Quarantine(Generic[Key]):
    """Keys of what failed; `now_ms` is the monotonic clock."""

    def __init__(self) -> None:
        self._until_ms: dict[Key, tuple[int, int]] = {}
        """When it may be tried again, and the pause before that."""

    def __len__(self) -> int:
        return len(self._until_ms)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._until_ms)

    def failed(self, key: Key, now_ms: int) -> int:
        """Returns the pause before the next attempt, in milliseconds."""
        known = self._until_ms.get(key)
        pause_ms = FIRST_PAUSE_MS if known is None else min(2 * known[1], LONGEST_PAUSE_MS)
        self._until_ms[key] = (now_ms + pause_ms, pause_ms)
        return pause_ms

    def is_closed(self, key: Key, now_ms: int) -> bool:
        """Whether it has to wait."""
        known = self._until_ms.get(key)
        return known is not None and now_ms < known[0]

    def until_ms(self, key: Key) -> int | None:
        """When it may be tried again; None for one that has not failed."""
        known = self._until_ms.get(key)
        return None if known is None else known[0]

    def release(self, is_meant: Callable[[Key], bool]) -> None:
        """Something has changed about these, or they were cleaned: nothing speaks against them any more."""
        self._until_ms = {key: row for key, row in self._until_ms.items() if not is_meant(key)}
