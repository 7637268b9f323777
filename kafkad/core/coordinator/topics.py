"""What does a coordinator have to know of topics? Names, ids and how many partitions, as the metadata has them now.

The process around a shard keeps it up to date; a shard asks each time and remembers nothing of it.
"""

from typing import Protocol
from uuid import UUID


class Topics(Protocol):
    """The topics of the cluster at this moment."""

    def partitions_of(self, name: str) -> int | None:
        """How many partitions the topic has; None: there is no such topic."""

    def id_of(self, name: str) -> UUID | None: ...

    def name_of(self, topic_id: UUID) -> str | None: ...

    def names(self) -> frozenset[str]:
        """All topics, for subscriptions by pattern. The same object until something changes."""
