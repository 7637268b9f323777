"""A topic that is deleted for clients and still has directories."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkad.core.controller.image import Topic

OFFLINE = -1
"""Stands for a partition in an offline directory: the deletion ends only after the directory is online again."""


@dataclass(slots=True)
class PendingDeletion:
    """A topic that is deleted for clients; `remaining` are the partitions that still have directories.

    `slots`: partition by slot, for a deletion that began in this incarnation of the broker. `log_dirs`: the directories
    of its replicas and of their moves; None: unknown, for a deletion that was found in the store.
    """

    partitions: int
    remaining: set[int]
    slots: Mapping[int, int] = field(default_factory=dict)
    log_dirs: frozenset[int] | None = None

    def directory_failed(self, log_dir: int) -> bool:
        """Whether the deletion waits for that directory, whose disk may lack the rename."""
        if self.log_dirs is not None and log_dir not in self.log_dirs:
            return False
        self.remaining.add(OFFLINE)
        return True


def log_dirs_of(topic: Topic) -> frozenset[int]:
    """The directories of the topic's replicas and of their moves."""
    return frozenset(each for row in topic.partitions for each in (row.log_dir, row.future_dir))
