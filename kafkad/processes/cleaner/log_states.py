"""The state of each compacted log of this cleaner, for metrics and `kafkad cleaner status`: how dirty it is, the result
of its last compaction, why it cannot be compacted.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kafkad.core.cleaning.cleanable import CleanableRange
from kafkad.core.cleaning.quarantine import Quarantine
from kafkad.core.metrics.catalogue import (
    LOG_DIRS,
    MAX_COMPACTION_DELAY,
    MAX_DIRTY_PERCENT,
    UNCLEANABLE_BYTES,
    UNCLEANABLE_PARTITIONS,
    of_log_dir,
)
from kafkad.core.metrics.counting import Block
from kafkad.processes.cleaner.early_checks import EarlyChecks
from kafkad.wire.processes.cleaning_messages import CompactionFigures, CompactionRow

_WHEN_CHANGED = 0
"""Retried only when the configuration changes."""


class LogKey(NamedTuple):
    """A log in its directory: after a move, an uncleanable log may be cleanable."""

    topic_id: UUID
    partition: int
    log_dir: int


@dataclass(slots=True)
class _State:
    dirty_ratio: float = 0.0
    cleanable_bytes: int = 0
    overdue_ms: int = 0
    next_check_ms: int | None = None
    last: CompactionFigures | None = None
    failure: str = ""


class LogStates:
    """By log, with the quarantine of uncleanable logs. Times are monotonic, except `wall_ms`."""

    def __init__(self, block: Block, early_checks: EarlyChecks) -> None:
        self._block = block
        self._early_checks = early_checks
        self._states: dict[LogKey, _State] = {}
        self._places: dict[tuple[UUID, int], LogKey] = {}
        self._quarantine: Quarantine[LogKey] = Quarantine()

    def checked(self, key: LogKey, cleanable: CleanableRange) -> None:
        """A check of the log."""
        before = self._places.get((key.topic_id, key.partition), key)
        if before != key:
            # It was moved: the copy may be cleanable.
            self._states.pop(before, None)
            self._quarantine.release(lambda other: other == before)
        state = self._of(key)
        state.dirty_ratio, state.cleanable_bytes = cleanable.dirty_ratio, cleanable.cleanable_bytes
        state.overdue_ms = cleanable.overdue_ms if cleanable.cleanable_bytes else 0
        state.next_check_ms = cleanable.next_check_ms

    def keep(self, is_compacted: Callable[[UUID], bool]) -> None:
        """Forget the logs of all other topics, and update the metrics.

        Logs in quarantine are kept: another policy than compaction may have planned them.
        """
        quarantined = set(self._quarantine)
        self._states = {
            key: state for key, state in self._states.items() if key in quarantined or is_compacted(key.topic_id)
        }
        self._places = {(key.topic_id, key.partition): key for key in self._states}
        states = self._states.values()
        self._block[MAX_DIRTY_PERCENT] = int(100 * max((state.dirty_ratio for state in states), default=0.0))
        self._block[MAX_COMPACTION_DELAY] = max((state.overdue_ms for state in states), default=0) // 1000
        self._count_uncleanable()

    def is_quarantined(self, key: LogKey, now_ms: int) -> bool:
        return self._quarantine.is_closed(key, now_ms)

    def needs_check(self, key: LogKey, now_ms: int, wall_ms: int) -> bool:
        """Whether a lag has ended since the last check."""
        if self._quarantine.is_closed(key, now_ms):
            return False
        state = self._states.get(key)
        return state is not None and state.next_check_ms is not None and wall_ms >= state.next_check_ms

    def release(self, is_selected: Callable[[UUID], bool]) -> None:
        """Their configuration has changed: they may be retried at once."""
        for key, state in self._states.items():
            if is_selected(key.topic_id):
                state.failure = ""
        self._quarantine.release(lambda key: is_selected(key.topic_id))
        self._count_uncleanable()

    def compacted(self, key: LogKey, figures: CompactionFigures) -> None:
        state = self._of(key)
        state.last, state.failure = figures, ""
        self._quarantine.release(lambda other: other == key)
        self._count_uncleanable()

    def failed(self, key: LogKey, reason: str, now_ms: int) -> int:
        """Returns the milliseconds until the retry."""
        self._of(key).failure = reason
        pause_ms = self._quarantine.failed(key, now_ms)
        self._early_checks.retry(key.topic_id, key.partition, now_ms + pause_ms)
        self._count_uncleanable()
        return pause_ms

    def rows(
        self,
        compacting: LogKey | None,
        planned: Collection[LogKey],
        failed_policies: Mapping[tuple[UUID, int], str],
        now_ms: int,
        wall_ms: int,
    ) -> Iterator[CompactionRow]:
        """The row of each log; `failed_policies` has the reasons why nothing is planned, by partition."""
        for key, state in self._states.items():
            failure, retry_ms = state.failure, _WHEN_CHANGED
            until_ms = self._quarantine.until_ms(key)
            if until_ms is not None:
                retry_ms = wall_ms + max(0, until_ms - now_ms)
            name = "compacting" if key == compacting else "waiting" if key in planned else ""
            if not name:
                failure = failed_policies.get((key.topic_id, key.partition), failure)
                name = "quarantined" if failure else "idle"
            yield CompactionRow(
                topic_id=key.topic_id.bytes,
                partition=key.partition,
                state=name,
                dirty_ratio=state.dirty_ratio,
                cleanable_bytes=state.cleanable_bytes,
                last=state.last,
                failure=failure,
                retry_ms=retry_ms,
            )

    def _of(self, key: LogKey) -> _State:
        self._places[key.topic_id, key.partition] = key
        return self._states.setdefault(key, _State())

    def _count_uncleanable(self) -> None:
        counts: Counter[int] = Counter()
        for key in self._quarantine:
            counts[of_log_dir(UNCLEANABLE_PARTITIONS, key.log_dir)] += 1
            counts[of_log_dir(UNCLEANABLE_BYTES, key.log_dir)] += self._of(key).cleanable_bytes
        for first in (UNCLEANABLE_PARTITIONS, UNCLEANABLE_BYTES):
            for index in range(first, first + LOG_DIRS):
                self._block[index] = counts[index]
