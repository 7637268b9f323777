"""The coordinators' view of topics: names, ids and partition counts, from the present metadata.

The process of the shard keeps it up to date; a shard calls it each time and stores nothing.
"""

from typing import Protocol
from uuid import UUID


class Topics(Protocol):
    """The present topics of the cluster."""

    def partitions_of(self, name: str) -> int | None:
        """The number of partitions; None: the topic does not exist."""

    def id_of(self, name: str) -> UUID | None: ...

    def name_of(self, topic_id: UUID) -> str | None: ...

    def names(self) -> frozenset[str]:
        """All topics, for subscriptions by pattern. The same object until topics change."""
