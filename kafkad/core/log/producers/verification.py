"""Has the transaction coordinator said that a producer's transaction includes this partition? (KIP-890)

A guard stands for one question to the coordinator. What the coordinator answered counts only as long as the guard
does: a marker in between takes it away, so that an answer about the transaction before can't let records of a
producer into the log that no marker will ever end. The lowest sequence asked about is kept too: a later batch must
not come first just because the coordinator answered its question sooner.
"""

NO_GUARD = 0
"""Nothing was asked: the transaction is known to be open, or no question is necessary."""


class Verification:
    """What is known of one producer whose transaction has no record here yet. Mutable and slotted."""

    __slots__ = ("guard", "lowest_sequence", "producer_epoch", "since_ms", "supports_epoch_bump")

    def __init__(
        self, guard: int, producer_epoch: int, sequence: int, since_ms: int, *, supports_epoch_bump: bool
    ) -> None:
        self.guard = guard
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.since_ms = since_ms
        self.supports_epoch_bump = supports_epoch_bump
        """The client bumps its epoch with each transaction (transaction version 2)."""

    def asked_again(self, producer_epoch: int, sequence: int) -> None:
        if producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
        elif producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence


class Verifications:
    """The verifications of one partition. `by_producer` is only looked at from outside."""

    __slots__ = ("_next_guard", "by_producer")

    def __init__(self) -> None:
        self.by_producer: dict[int, Verification] = {}
        self._next_guard = 1

    def begin(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, supports_epoch_bump: bool
    ) -> int:
        """The guard of the question that is to be asked now; the same one as long as it is not used up."""
        known = self.by_producer.get(producer_id)
        if known is None:
            known = self.by_producer[producer_id] = Verification(
                self._next_guard, producer_epoch, sequence, now_ms, supports_epoch_bump=supports_epoch_bump
            )
            self._next_guard += 1
        else:
            known.asked_again(producer_epoch, sequence)
        return known.guard

    def holds(self, producer_id: int, guard: int) -> bool:
        known = self.by_producer.get(producer_id)
        return guard != NO_GUARD and known is not None and known.guard == guard

    def written(self, producer_id: int) -> None:
        """A record of the transaction is in the log: from now on that says it all."""
        self.by_producer.pop(producer_id, None)

    def ended(self, producer_id: int, producer_epoch: int) -> None:
        """A marker is in the log. One with the epoch of a question that waits is of the transaction before it."""
        known = self.by_producer.get(producer_id)
        if known is not None and not (known.supports_epoch_bump and known.producer_epoch == producer_epoch):
            del self.by_producer[producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        expired = [key for key, known in self.by_producer.items() if now_ms - known.since_ms >= expiration_ms]
        for producer_id in expired:
            del self.by_producer[producer_id]

    def clear(self) -> None:
        self.by_producer.clear()
