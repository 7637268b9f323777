"""The producer ids of a transaction coordinator, in blocks from the controller.

`take` never waits: while a block is requested, clients have to retry.
"""

from typing import Protocol


class ProducerIdManager(Protocol):
    """A coordinator's unused producer ids (Kafka's name)."""

    def take(self) -> int | None:
        """The next id; None: a block is requested (COORDINATOR_LOAD_IN_PROGRESS until it arrives)."""


class ProducerIdBlocks:
    """Allocates ids from the blocks of `add`; sets `is_block_required` when the last block is nearly used up."""

    def __init__(self) -> None:
        self._next = 0
        self._end = 0
        self._following: tuple[int, int] | None = None
        self.is_block_required = False
        """Whether to request another block. The process that requests it sets `is_requested`; `add` clears both."""
        self.is_requested = False

    def take(self) -> int | None:
        if self._next == self._end and self._following is not None:
            self._next, self._end = self._following
            self._following = None
        if self._next == self._end:
            self.is_block_required = True
            return None
        producer_id = self._next
        self._next += 1
        # Early enough that clients rarely have to retry.
        if self._end - self._next < EARLY and self._following is None:
            self.is_block_required = True
        return producer_id

    def prefetch(self) -> None:
        """Request a block before the first id is required."""
        if self._next == self._end and self._following is None:
            self.is_block_required = True

    def add(self, first: int, count: int) -> None:
        """A block has arrived."""
        self.is_block_required = self.is_requested = False
        if self._next == self._end:
            self._next, self._end = first, first + count
        else:
            self._following = (first, first + count)

    def failed(self) -> None:
        """The request for a block failed: the next `take` without an id requests a block again."""
        self.is_requested = False


EARLY = 100
"""The next block is requested when fewer ids than this are left."""
