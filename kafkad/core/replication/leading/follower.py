"""What the leader of a partition knows about one follower (Kafka's Replica, the remote kind)."""

from kafkad.core.types import NO_BROKER_EPOCH

UNKNOWN_OFFSET = -1
LONG_AGO_MS = -(1 << 62)


class Follower:
    """A follower since the leader epoch began. Mutable and slotted: it is updated by each fetch that makes progress.

    `caught_up_ms` is the last time at which it is known to have had all records of the leader's log. `broker_epoch` is
    that of the broker's life whose fetch was counted last. `has_left`: it was to leave the ISR, and has not fetched
    since.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "caught_up_ms",
        "fetched_ms",
        "has_left",
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
        self.has_left = False

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, at_ms: int) -> None:
        """It has asked for records from `offset` on, when the leader's log ended at `leader_end`.

        A follower that has by now what was there at its last fetch was in sync at that time: under steady load it is
        never at the very end.
        """
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, at_ms)
        elif self.leader_end_at_fetch != UNKNOWN_OFFSET and offset >= self.leader_end_at_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.has_left = False
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_fetch = max(leader_end, self.leader_end_at_fetch)
        self.fetched_ms = at_ms

    def has_its_time(self, now_ms: int) -> None:
        """It has joined the ISR with what is committed, which need not be all of the log: it may take as long as any
        other in-sync replica until it has that. Otherwise it would leave at once, and join with its next fetch.
        """
        self.caught_up_ms = max(self.caught_up_ms, now_ms)

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether it has everything, or had within `max_lag_ms`. A follower of an idle partition does not fall behind,
        as only fetches that say something new are told.
        """
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= max_lag_ms
