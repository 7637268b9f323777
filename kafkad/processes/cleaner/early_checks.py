"""The logs to check before the next round: a changed configuration applies within a second, and a failure is retried
when its pause ends.

However often clients change configurations, there is one check a second. Without changes no timer runs.
"""

from collections.abc import Collection
from uuid import UUID

from kafkad.core.controller.deltas import MetadataDelta, Snapshot, TopicConfigChanged
from kafkad.core.controller.image import MetadataImage

PAUSE_MS = 1_000
"""The minimum time between two checks."""


class EarlyChecks:
    """The topics, log directories and partitions to check, and when; `now_ms` is the monotonic clock."""

    def __init__(self) -> None:
        self._topics: set[UUID] = set()
        self._log_dirs: set[int] = set()
        self._later: set[tuple[int, UUID, int]] = set()
        """Single partitions, each with the time of its check."""
        self._first_later_ms: int | None = None
        self._not_before_ms = 0

    def topics_changed(self, before: MetadataImage, after: MetadataImage, delta: MetadataDelta) -> None:
        """`delta` leads from `before` to `after`; a snapshot may have changes that this process missed."""
        for change in delta.changes:
            match change:
                case TopicConfigChanged(name, _):
                    self._topics.add(after.topics[name].id)
                case Snapshot():
                    configs_before = {topic.id: topic.configs for topic in before.topics.values()}
                    for topic in after.topics.values():
                        if configs_before.get(topic.id, topic.configs) != topic.configs:
                            self._topics.add(topic.id)

    def all_changed(self, image: MetadataImage) -> None:
        """The configuration of the broker has changed, which all topics inherit."""
        self._topics.update(image.names_by_id)

    def space_short(self, log_dir: int) -> None:
        """The directory is nearly full."""
        self._log_dirs.add(log_dir)

    def retry(self, topic_id: UUID, partition: int, until_ms: int) -> None:
        """Check the partition at `until_ms`, when a failure may be retried."""
        self._later.add((until_ms, topic_id, partition))
        self._first_later_ms = until_ms if self._first_later_ms is None else min(until_ms, self._first_later_ms)

    @property
    def due_ms(self) -> int | None:
        if self._topics or self._log_dirs:
            return self._not_before_ms
        return None if self._first_later_ms is None else max(self._first_later_ms, self._not_before_ms)

    def take(self, now_ms: int) -> tuple[Collection[UUID], Collection[int], Collection[tuple[UUID, int]]]:
        """The topics, log directories and partitions of the check that begins now."""
        taken = self._topics, self._log_dirs, self._take_later(now_ms)
        self._topics, self._log_dirs = set(), set()
        self._not_before_ms = now_ms + PAUSE_MS
        return taken

    def _take_later(self, now_ms: int) -> Collection[tuple[UUID, int]]:
        if self._first_later_ms is None or now_ms < self._first_later_ms:
            return ()
        due = {row for row in self._later if row[0] <= now_ms}
        self._later -= due
        self._first_later_ms = min((until_ms for until_ms, _, _ in self._later), default=None)
        return {(topic_id, partition) for _, topic_id, partition in due}
