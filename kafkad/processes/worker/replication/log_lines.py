"""The worker's log lines about replicas: at most once a second, because many partitions change at about the same time.

The first change is logged in its pass, the changes of the next second together at its end.
"""

import logging

from kafkad.core.partition_lines import PartitionLines

log = logging.getLogger(__name__)

PAUSE_MS = 1_000


class ReplicationLog:
    """The lines about the partitions that a worker leads or follows."""

    def __init__(self) -> None:
        self.lines = PartitionLines()
        self._not_before_ms = 0

    @property
    def next_deadline_ms(self) -> int | None:
        return self._not_before_ms if self.lines else None

    def tick(self, now_ms: int) -> None:
        if self.lines and now_ms >= self._not_before_ms:
            self._not_before_ms = now_ms + PAUSE_MS
            self.write()

    def write(self) -> None:
        for level, line in self.lines.take():
            log.log(level, "%s", line)
