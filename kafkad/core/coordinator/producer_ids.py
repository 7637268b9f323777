"""The producer ids that a transaction coordinator gives out: blocks of them come from the controller.

`take` never waits: while a block is being fetched the client has to retry.
"""

from typing import Protocol


class ProducerIdManager(Protocol):
    """A coordinator's unused producer ids (Kafka's name)."""

    def take(self) -> int | None:
        """The next one; None: a block is being fetched (COORDINATOR_LOAD_IN_PROGRESS until it is here)."""


class ProducerIdBlocks:
    """Gives out the ids of the blocks that `add` brought; sets `wanted` when the last block is nearly used up."""

    def __init__(self) -> None:
        self._next = 0
        self._end = 0
        self._following: tuple[int, int] | None = None
        self.wanted = False
        """Whether another block is needed. The process that requests it sets `is_asked`; `add` clears both."""
        self.is_asked = False

    def take(self) -> int | None:
        if self._next == self._end and self._following is not None:
            self._next, self._end = self._following
            self._following = None
        if self._next == self._end:
            self.wanted = True
            return None
        producer_id = self._next
        self._next += 1
        # Early enough that clients rarely have to retry.
        if self._end - self._next < EARLY and self._following is None:
            self.wanted = True
        return producer_id

    def prefetch(self) -> None:
        """Request a block before the first id is needed."""
        if self._next == self._end and self._following is None:
            self.wanted = True

    def add(self, first: int, count: int) -> None:
        """A block has arrived."""
        self.wanted = self.is_asked = False
        if self._next == self._end:
            self._next, self._end = first, first + count
        else:
            self._following = (first, first + count)

    def failed(self) -> None:
        """The request for a block has failed: the next `take` without an id asks again."""
        self.is_asked = False


EARLY = 100
"""The next block is requested when so few ids are left."""
