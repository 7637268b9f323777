"""Which log directories are so full that clients can't produce to them now?

A look costs a system call, so it is made in passes that have appended something: once a second, or after a share of
the room that was left. While a directory is short of room, it is looked at again after a refused Produce, when files
were removed, and every ten seconds. Otherwise a worker that has nothing to do looks at nothing.
"""

import logging
from collections.abc import Callable, Sequence

from kafkad.adapters.files.free_space import measure_free_space
from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.free_space import enough_free_bytes, is_short_of_space, least_free_bytes
from kafkad.core.ports import StorageFailed

log = logging.getLogger(__name__)

CHECK_INTERVAL_MS = 1_000
AGAIN_MS = 200
"""The least time between two looks because of refused Produce requests."""
REPEAT_MS = 10_000
"""The least time between two orders to clean a full directory."""
FULL_MS = 60_000
"""How long a write that did not fit counts, if there is room by what the file system says: there may be a quota."""
_SHARE = 16
_AT_LEAST_BYTES = 1 << 20


class DiskSpace:
    """The log directories of one worker.

    `least` is kafkad.log.dirs.min.free.bytes, `clean` is called with directories that are short of room: now and then,
    as more may have become old enough to go. `changed` is called when `without_room` is another.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        least: Callable[[], int | None],
        clean: Callable[[int], None],
        changed: Callable[[], None],
    ) -> None:
        self._paths = {at: str(each.path) for at, each in enumerate(directories) if each.is_online}
        self._least = least
        self._clean = clean
        self._changed = changed
        self.short: dict[int, str] = {}
        """By log directory, what a client is told."""
        self._full_until_ms: dict[int, int] = {}
        """By log directory in which a write did not fit."""
        self.without_room: frozenset[int] = frozenset()
        """The log directories that are short of room, and those in which a write did not fit."""
        self._due_ms = 0
        self._written_bytes = self._due_bytes = 0
        self._not_before_ms = self._again_ms = 0
        self._cleaned_ms: dict[int, int] = {}

    def written(self, now_ms: int, total_bytes: int) -> None:
        """Something was appended; so many bytes since the start."""
        if now_ms >= self._due_ms or total_bytes >= self._due_bytes:
            self._written_bytes = total_bytes
            self._look(now_ms)

    def refuse(self, log_dir: int, now_ms: int) -> None:
        """A client wants to produce to a directory that was short of room. Raises `KafkaError` if it still is."""
        if now_ms >= self._not_before_ms:
            self._look(now_ms)
        if log_dir in self.short:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.short[log_dir])

    @property
    def next_check_ms(self) -> int | None:
        """While a directory has no room: more may have become old enough to go, or others have made room."""
        return self._again_ms if self.without_room else None

    def check_again(self, now_ms: int) -> None:
        if self.without_room and now_ms >= self._again_ms:
            self._look(now_ms)

    def made(self, now_ms: int) -> None:
        """Files were removed."""
        if self.short:
            self._look(now_ms)

    def found_full(self, log_dir: int, now_ms: int) -> None:
        """A write did not fit, whatever is said to be free: there may be a quota."""
        self._order(log_dir, now_ms)
        if log_dir in self._paths:
            self._full_until_ms[log_dir] = now_ms + FULL_MS
            self._note(now_ms)

    def forget(self, log_dir: int, now_ms: int) -> None:
        """The directory is offline."""
        self._paths.pop(log_dir, None)
        self.short.pop(log_dir, None)
        self._full_until_ms.pop(log_dir, None)
        self._note(now_ms)

    def _note(self, now_ms: int) -> None:
        without_room = frozenset([*self.short, *self._full_until_ms])
        if without_room == self.without_room:
            return
        if not self.without_room:
            self._again_ms = now_ms + REPEAT_MS
        self.without_room = without_room
        self._changed()

    def _look(self, now_ms: int) -> None:
        margins = [self._look_at(log_dir, path, now_ms) for log_dir, path in self._paths.items()]
        self._full_until_ms = {each: until for each, until in self._full_until_ms.items() if now_ms < until}
        self._note(now_ms)
        self._due_ms = now_ms + CHECK_INTERVAL_MS
        self._not_before_ms = now_ms + AGAIN_MS
        self._again_ms = now_ms + REPEAT_MS
        # Other workers write as well.
        self._due_bytes = self._written_bytes + max(_AT_LEAST_BYTES, min(margins, default=0) // _SHARE)

    def _look_at(self, log_dir: int, path: str, now_ms: int) -> int:
        """Returns how many bytes may be written before the directory is short of room."""
        try:
            room = measure_free_space(path)
        except (StorageFailed, FileNotFoundError):
            # Whoever reads or writes there finds out what is wrong.
            return 0
        least = least_free_bytes(self._least(), room.total_bytes)
        if is_short_of_space(room, least, was_short=log_dir in self.short):
            self._is_short(log_dir, path, room.free_bytes, least, now_ms)
        elif self.short.pop(log_dir, None) is not None:
            log.info("%s has room again, %s: clients can produce to it", path, in_words(room.free_bytes))
        return max(0, room.free_bytes - least)

    def _is_short(self, log_dir: int, path: str, free_bytes: int, least: int, now_ms: int) -> None:
        state = f"log directory {path} has {in_words(free_bytes)} of free room"
        wanted = f"at {in_words(enough_free_bytes(least))}"
        if log_dir not in self.short:
            log.error(
                "%s, less than kafkad.log.dirs.min.free.bytes=%d: clients can produce to it again %s",
                *(state, least, wanted),
            )
        self.short[log_dir] = f"{state}: producers can go on {wanted}"
        self._order(log_dir, now_ms)

    def _order(self, log_dir: int, now_ms: int) -> None:
        if now_ms >= self._cleaned_ms.get(log_dir, 0):
            self._cleaned_ms[log_dir] = now_ms + REPEAT_MS
            self._clean(log_dir)


def in_words(size: int) -> str:
    """`size` bytes, with a unit in which it has few digits."""
    amount = float(size)
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 10_000:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.0f} TB"
