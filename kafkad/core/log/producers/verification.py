"""Has the transaction coordinator verified that a producer's transaction includes this partition? (KIP-890)

A guard identifies one verification request. The coordinator's response is valid only while the guard is. A marker in
between removes the guard: otherwise a response about the previous transaction could let records into the log that no
marker will ever end. The lowest sequence of the requests is kept too: a later batch must not be appended first because
its response came first.
"""

NO_GUARD = 0
"""No verification: the transaction is open, or none is required."""


class Verification:
    """The verification of one producer whose transaction has no record in this partition yet. Mutable and slotted."""

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

    def update(self, producer_epoch: int, sequence: int) -> None:
        if producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
        elif producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence


class Verifications:
    """The verifications of one partition. Other modules only read `by_producer`."""

    __slots__ = ("_next_guard", "by_producer")

    def __init__(self) -> None:
        self.by_producer: dict[int, Verification] = {}
        self._next_guard = 1

    def begin(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, supports_epoch_bump: bool
    ) -> int:
        """The guard of the producer's verification; the same until its transaction has a record or a marker."""
        verification = self.by_producer.get(producer_id)
        if verification is None:
            verification = self.by_producer[producer_id] = Verification(
                self._next_guard, producer_epoch, sequence, now_ms, supports_epoch_bump=supports_epoch_bump
            )
            self._next_guard += 1
        else:
            verification.update(producer_epoch, sequence)
        return verification.guard

    def holds(self, producer_id: int, guard: int) -> bool:
        verification = self.by_producer.get(producer_id)
        return guard != NO_GUARD and verification is not None and verification.guard == guard

    def written(self, producer_id: int) -> None:
        """A record of the transaction is in the log: the verification is complete."""
        self.by_producer.pop(producer_id, None)

    def ended(self, producer_id: int, producer_epoch: int) -> None:
        """A marker is in the log. If it has the epoch of a pending verification, it ends the transaction before that
        one.
        """
        verification = self.by_producer.get(producer_id)
        if verification is not None and not (
            verification.supports_epoch_bump and verification.producer_epoch == producer_epoch
        ):
            del self.by_producer[producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        expired = [
            producer_id
            for producer_id, verification in self.by_producer.items()
            if now_ms - verification.since_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self.by_producer[producer_id]

    def clear(self) -> None:
        self.by_producer.clear()
