"""A coordinator as the runtime around it sees it.

A shard is the state that belongs to one partition of an internal topic. Requests and timers never change that state:
they return an `Outcome`, whose records the runtime appends to the partition and then replays into the shard, live
exactly as at load. State that a restart may forget (waiting joins, session deadlines) is not in records and may be
changed directly.
"""

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext

Record = TypeVar("Record")


class Moment(NamedTuple):
    """One time for all events of a loop pass. Deadlines are on the monotonic clock; records carry the wall clock."""

    monotonic_ms: int
    wall_ms: int


class Caller(NamedTuple):
    """The client of a request. `token` names the request until its one answer."""

    token: int
    context: RequestContext

    @property
    def version(self) -> int:
        return self.context.version


class Producer(NamedTuple):
    """The transaction in which records are written: such offsets count only when it commits."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True, kw_only=True)
class Outcome(Generic[Record]):
    """The effects of a request or timer. Mutable: a rule adds to the outcome of another rule.

    The runtime goes in this order: append `records` as one batch (all or none), replay them, set `timers`, and when the
    high watermark has passed the batch send `replies` and call `after` with NONE. If the append is refused nothing is
    replayed and no timer is set. Each reply is replaced by an error answer with the code of the append, and `after` is
    called with that code. `after` may return another outcome. With `after`, `replies` are normally left to it.

    A reply goes to the token of any waiting request, not only to the one that led to this outcome.
    """

    records: list[Record] = field(default_factory=list)
    producer: Producer | None = None
    replies: list[tuple[int, object]] = field(default_factory=list)
    """(token, what the API's module packs)."""
    timers: list[tuple[Hashable, int | None]] = field(default_factory=list)
    """(key, deadline on the monotonic clock in ms); None cancels. A key has one timer: setting it again moves it."""
    after: Callable[[ErrorCode, Moment], "Outcome[Record]"] | None = None
    markers: list["TxnMarkersToSend"] = field(default_factory=list)
    log_lines: list[str] = field(default_factory=list)
    """Log lines: one for each rebalance, fenced producer and the like."""
    host: str = ""
    """The address of the client that has caused them, and what follows; empty: a timer has."""
    rebalances_ms: list[int] = field(default_factory=list)
    """The duration of each rebalance that this completes; for metrics."""
    shares_batch: bool = False
    """The append may wait for the end of the loop pass, where such outcomes are written together, in their order. So no
    other such outcome may depend on the state that these records change. It has neither `producer`, `after` nor
    `markers`."""

    def follow(self, code: ErrorCode, moment: Moment) -> "Outcome[Record] | None":
        """What `after` gives, caused by the same client."""
        if self.after is None:
            return None
        following = self.after(code, moment)
        following.host = following.host or self.host
        return following


class TxnMarkersToSend(NamedTuple):
    """A transaction is decided: its markers have to be written to all its partitions.

    The runtime calls `Shard.markers_written` when every partition has its marker, or is gone.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    partitions: frozenset[tuple[str, int]]
    transaction_version: int = 0
    """With 2 a marker's epoch must be above that of its transaction (KIP-890)."""


class Shard(Protocol[Record]):
    """The state of one internal partition. Methods that return an `Outcome` leave the replayed state alone."""

    def replay(self, record: Record, offset: int, producer: Producer | None) -> None:
        """Apply one record that is in the log at `offset`; with `producer` it is part of an open transaction."""

    def transaction_ended(self, producer_id: int, is_commit: bool, offset: int) -> None:
        """The marker of a producer's transaction is in the log (replayed like a record)."""

    def loaded(self, moment: Moment) -> Generator[Outcome[Record], None, Outcome[Record]]:
        """The whole log has been replayed: set the timers that the state needs, in steps of a few milliseconds.

        Requests come, and `markers_written` is called, from the returned outcome on; timers may be due before.
        """

    def expired(self, key: Hashable, moment: Moment) -> Outcome[Record]:
        """The timer `key` is due."""

    def unloaded(self) -> Outcome[Record]:
        """Leadership is gone, or the log failed: answer all waiting requests (NOT_COORDINATOR); no records."""

    def markers_written(self, transactional_id: str, producer_epoch: int, moment: Moment) -> Outcome[Record]:
        """Every marker of a `TxnMarkersToSend` is in its log."""
