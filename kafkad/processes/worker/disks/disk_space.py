"""Which log directories are too full for Produce?

A check costs a system call, so only passes with appends check: once a second, or after a share of the free space was
written. A directory that is short of space is checked again after a rejected Produce, after files were removed, and
every ten seconds. Otherwise an idle worker checks nothing.
"""

import logging
from collections.abc import Sequence

from kafkad.adapters.files.free_space import measure_free_space
from kafkad.adapters.files.log_directory import LogDirectory
from kafkad.config.entities.broker import BrokerConfig
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.free_space import enough_free_bytes, is_short_of_space, least_free_bytes
from kafkad.core.ports import StorageFailed
from kafkad.processes.worker.outbox import Outbox

log = logging.getLogger(__name__)

CHECK_INTERVAL_MS = 1_000
RECHECK_MS = 200
"""The minimum time between two checks because of rejected Produce requests."""
REPEAT_MS = 10_000
"""The minimum time between two requests to clean a full directory."""
FULL_MS = 60_000
"""How long a directory counts as full after ENOSPC although the file system reports free space (there may be a quota).
"""
_SHARE = 16
_AT_LEAST_BYTES = 1 << 20


class DiskSpace:
    """The log directories of one worker.

    Space is requested for a directory that is short of it, again every ten seconds.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        config: BrokerConfig,
        outbox: Outbox,
    ) -> None:
        self._paths = {at: str(each.path) for at, each in enumerate(directories) if each.is_online}
        self._outbox = outbox
        self.short: dict[int, str] = {}
        """The error message for clients, by log directory."""
        self._full_until_ms: dict[int, int] = {}
        """Log directories in which a write got ENOSPC."""
        self.without_space: frozenset[int] = frozenset()
        """The log directories that are short of space, and those in which a write got ENOSPC."""
        self._due_ms = 0
        self._written_bytes = self._due_bytes = 0
        self._not_before_ms = self._recheck_ms = 0
        self._cleaned_ms: dict[int, int] = {}
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """The options of the broker have changed."""
        value = config.values["kafkad.log.dirs.min.free.bytes"]
        assert value is None or isinstance(value, int), "it is an integer option"
        self._min_free_bytes = value

    def min_free_bytes(self, total_bytes: int) -> int:
        """The free space that a log directory keeps, on a file system of this size."""
        return least_free_bytes(self._min_free_bytes, total_bytes)

    def written(self, now_ms: int, total_bytes: int) -> None:
        """Records were appended; `total_bytes` since the start."""
        if now_ms >= self._due_ms or total_bytes >= self._due_bytes:
            self._written_bytes = total_bytes
            self._check(now_ms)

    def require_space(self, log_dir: int, now_ms: int) -> None:
        """For a Produce to a directory that was short of space. Raises `KafkaError` if it still is."""
        if now_ms >= self._not_before_ms:
            self._check(now_ms)
        if log_dir in self.short:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.short[log_dir])

    @property
    def next_check_ms(self) -> int | None:
        """While a directory is full: retention may remove more, or other processes may have freed space."""
        return self._recheck_ms if self.without_space else None

    def check_again(self, now_ms: int) -> None:
        if self.without_space and now_ms >= self._recheck_ms:
            self._check(now_ms)

    def files_removed(self, now_ms: int) -> None:
        """Files were removed."""
        if self.short:
            self._check(now_ms)

    def found_full(self, log_dir: int, now_ms: int) -> None:
        """A write got ENOSPC, whatever the file system reports as free."""
        self._request_cleaning(log_dir, now_ms)
        if log_dir in self._paths:
            self._full_until_ms[log_dir] = now_ms + FULL_MS
            self._update_full(now_ms)

    def forget(self, log_dir: int, now_ms: int) -> None:
        """The directory is offline."""
        self._paths.pop(log_dir, None)
        self.short.pop(log_dir, None)
        self._full_until_ms.pop(log_dir, None)
        self._update_full(now_ms)

    def _update_full(self, now_ms: int) -> None:
        without_space = frozenset([*self.short, *self._full_until_ms])
        if without_space == self.without_space:
            return
        if not self.without_space:
            self._recheck_ms = now_ms + REPEAT_MS
        self.without_space = without_space
        self._outbox.full_dirs_changed()

    def _check(self, now_ms: int) -> None:
        margins = [self._check_directory(log_dir, path, now_ms) for log_dir, path in self._paths.items()]
        self._full_until_ms = {each: until for each, until in self._full_until_ms.items() if now_ms < until}
        self._update_full(now_ms)
        self._due_ms = now_ms + CHECK_INTERVAL_MS
        self._not_before_ms = now_ms + RECHECK_MS
        self._recheck_ms = now_ms + REPEAT_MS
        # Other workers write as well.
        self._due_bytes = self._written_bytes + max(_AT_LEAST_BYTES, min(margins, default=0) // _SHARE)

    def _check_directory(self, log_dir: int, path: str, now_ms: int) -> int:
        """Returns the bytes that may be written before the directory is short of space."""
        try:
            space = measure_free_space(path)
        except (StorageFailed, FileNotFoundError):
            # Reads and writes detect the failure.
            return 0
        min_free_bytes = self.min_free_bytes(space.total_bytes)
        if is_short_of_space(space, min_free_bytes, was_short=log_dir in self.short):
            self._is_short(log_dir, path, space.free_bytes, min_free_bytes, now_ms)
        elif self.short.pop(log_dir, None) is not None:
            log.info("%s has space again (%s): clients can produce to it", path, readable_size(space.free_bytes))
        return max(0, space.free_bytes - min_free_bytes)

    def _is_short(self, log_dir: int, path: str, free_bytes: int, min_free_bytes: int, now_ms: int) -> None:
        state = f"log directory {path} has {readable_size(free_bytes)} of free space"
        resume_at = f"at {readable_size(enough_free_bytes(min_free_bytes))}"
        if log_dir not in self.short:
            log.error(
                "%s, less than kafkad.log.dirs.min.free.bytes=%d: clients can produce to it again %s",
                *(state, min_free_bytes, resume_at),
            )
        self.short[log_dir] = f"{state}: producers can continue {resume_at}"
        self._request_cleaning(log_dir, now_ms)

    def _request_cleaning(self, log_dir: int, now_ms: int) -> None:
        if now_ms >= self._cleaned_ms.get(log_dir, 0):
            self._cleaned_ms[log_dir] = now_ms + REPEAT_MS
            self._outbox.free_up_space(log_dir)


def readable_size(size: int) -> str:
    """`size` bytes, with a unit in which it has few digits."""
    amount = float(size)
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 10_000:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.0f} TB"
