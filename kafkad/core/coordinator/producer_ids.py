"""Where do the producer ids of transactional producers come from? Blocks that the controller hands out.

`take` never waits: while a block is under way the client is asked to come again.
"""

from typing import Protocol


class ProducerIdManager(Protocol):
    """A coordinator's producer ids, which nobody has had (Kafka's name)."""

    def take(self) -> int | None:
        """The next one; None: a block is being fetched (COORDINATOR_LOAD_IN_PROGRESS until it is here)."""


class ProducerIdBlocks:
    """Hands out what `add` brought; asks for a new block by `wanted` when the last one runs dry."""

    def __init__(self) -> None:
        self._next = 0
        self._end = 0
        self._following: tuple[int, int] | None = None
        self.wanted = False
        """Whether a block is to be asked for. Who asks sets `is_asked`, and `add` clears both."""
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
        # Early enough, as a rule, that nobody is sent away.
        if self._end - self._next < EARLY and self._following is None:
            self.wanted = True
        return producer_id

    def prefetch(self) -> None:
        """Somebody will need ids: have some before they are asked for."""
        if self._next == self._end and self._following is None:
            self.wanted = True

    def add(self, first: int, count: int) -> None:
        """A block came."""
        self.wanted = self.is_asked = False
        if self._next == self._end:
            self._next, self._end = first, first + count
        else:
            self._following = (first, first + count)

    def failed(self) -> None:
        """It did not come: the next `take` that finds nothing asks again."""
        self.is_asked = False


EARLY = 100
"""With so many left the next block is asked for."""
