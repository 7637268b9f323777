"""A topic that is deleted for clients while directories of it are still there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkad.core.controller.image import Topic

OFFLINE = -1
"""Stands for "some partition in an offline directory": such a deletion ends only when the directory is back."""


@dataclass(slots=True)
class PendingDeletion:
    """A topic that is deleted for clients; `remaining` are the partitions whose directories are still there.

    `slots`: partition by slot, for a deletion that began in this incarnation of the broker. `log_dirs`: where its
    replicas were, or were on their way to; None if that isn't known, as for a deletion that was found in the store.
    """

    partitions: int
    remaining: set[int]
    slots: Mapping[int, int] = field(default_factory=dict)
    log_dirs: frozenset[int] | None = None

    def directory_failed(self, log_dir: int) -> bool:
        """Whether it waits for that directory to come back: what was renamed there may not be on its disk."""
        if self.log_dirs is not None and log_dir not in self.log_dirs:
            return False
        self.remaining.add(OFFLINE)
        return True


def log_dirs_of(topic: Topic) -> frozenset[int]:
    """Where its replicas are, or are on their way to."""
    return frozenset(each for row in topic.partitions for each in (row.log_dir, row.future_dir))
