"""Whose logs are looked at before the next round is due: a changed configuration takes effect within a second.

A client that changes configurations again and again gets one look a second, and no timer runs without a change.
"""

from collections.abc import Collection
from uuid import UUID

from kafkad.core.controller.deltas import MetadataDelta, Snapshot, TopicConfigChanged
from kafkad.core.controller.image import MetadataImage

PAUSE_MS = 1_000
"""The least time between two looks."""


class EarlyLooks:
    """The topics and log directories to look at, and when."""

    def __init__(self) -> None:
        self._topics: set[UUID] = set()
        self._log_dirs: set[int] = set()
        self._not_before_ms = 0

    def topics_changed(self, before: MetadataImage, after: MetadataImage, delta: MetadataDelta) -> None:
        """`delta` leads from `before` to `after`; a snapshot may have changes that this process missed."""
        for change in delta.changes:
            match change:
                case TopicConfigChanged(name, _):
                    self._topics.add(after.topics[name].id)
                case Snapshot():
                    known = {topic.id: topic.configs for topic in before.topics.values()}
                    for topic in after.topics.values():
                        if known.get(topic.id, topic.configs) != topic.configs:
                            self._topics.add(topic.id)

    def all_changed(self, image: MetadataImage) -> None:
        """The configuration of the broker has changed, which all topics inherit."""
        self._topics.update(image.names_by_id)

    def needs_room(self, log_dir: int) -> None:
        """The directory is nearly full."""
        self._log_dirs.add(log_dir)

    @property
    def due_ms(self) -> int | None:
        return self._not_before_ms if self._topics or self._log_dirs else None

    def take(self, now_ms: int) -> tuple[Collection[UUID], Collection[int]]:
        """The topics and log directories of the look that begins now."""
        taken = self._topics, self._log_dirs
        self._topics, self._log_dirs = set(), set()
        self._not_before_ms = now_ms + PAUSE_MS
        return taken
