"""The leader's state of one follower (Kafka's remote Replica)."""

from kafkad.core.types import NO_BROKER_EPOCH

UNKNOWN_OFFSET = -1
LONG_AGO_MS = -(1 << 62)


class Follower:
    """A follower in one leader epoch. Mutable and slotted: each fetch with progress updates it.

    `caught_up_ms` is the last time at which it had all records of the leader's log. `broker_epoch` is the broker epoch
    of the last counted fetch. `is_removed`: its removal from the ISR was requested, and it has not fetched since.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "caught_up_ms",
        "fetched_ms",
        "is_removed",
        "leader_end_at_fetch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int, caught_up_ms: int) -> None:
        self.broker_id = broker_id
        self.caught_up_ms = caught_up_ms
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.leader_end_at_fetch = UNKNOWN_OFFSET
        self.fetched_ms = LONG_AGO_MS
        self.broker_epoch = NO_BROKER_EPOCH
        self.is_removed = False

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, at_ms: int) -> None:
        """The follower fetches from `offset` on; the leader's log end offset is `leader_end`.

        A follower that has now reached the leader's log end at its previous fetch was caught up at that time: under
        steady load a follower never reaches the present log end.
        """
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, at_ms)
        elif self.leader_end_at_fetch != UNKNOWN_OFFSET and offset >= self.leader_end_at_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.is_removed = False
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_fetch = max(leader_end, self.leader_end_at_fetch)
        self.fetched_ms = at_ms

    def reset_lag(self, now_ms: int) -> None:
        """The lag counts from now on: a follower joins the ISR with all committed records, but maybe not all records.
        Otherwise it would be removed at once, and join again with its next fetch.
        """
        self.caught_up_ms = max(self.caught_up_ms, now_ms)

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether the follower has all records, or had them within `max_lag_ms`. In an idle partition a follower does
        not lag, although its fetches without progress are not reported.
        """
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= max_lag_ms
