"""The interface of a coordinator's shard for its runtime.

A shard is the state of one partition of an internal topic. Requests and timers never change this state: they return an
`Outcome`, whose records the runtime appends to the partition and then replays into the shard, in the same way as during
loading. State that a restart may lose (waiting joins, session deadlines) is not in records and may be changed directly.
"""

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext

Record = TypeVar("Record")


class Moment(NamedTuple):
    """One time for all events of a loop pass. Deadlines are on the monotonic clock; records have the wall clock."""

    monotonic_ms: int
    wall_ms: int


class Caller(NamedTuple):
    """The client of a request. `token` identifies the request until its one response."""

    token: int
    context: RequestContext

    @property
    def version(self) -> int:
        return self.context.version


class Producer(NamedTuple):
    """The transaction of transactional records: such offsets count only when it commits."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True, kw_only=True)
class Outcome(Generic[Record]):
    """The effects of a request or timer. Mutable: a rule adds to the outcome of another rule.

    The order: the runtime appends `records` as one batch (all or none), replays them and sets `timers`. When the high
    watermark has passed the batch, it sends `replies` and calls `after` with NONE. If the append fails, nothing is
    replayed and no timer is set; each reply is replaced by an error response with the code of the append, and `after`
    is called with this code. `after` may return another outcome, which normally has the replies.

    A reply goes to the token of any waiting request, not only to the request of this outcome.
    """

    records: list[Record] = field(default_factory=list)
    producer: Producer | None = None
    replies: list[tuple[int, object]] = field(default_factory=list)
    """(token, object that the API's module packs)."""
    timers: list[tuple[Hashable, int | None]] = field(default_factory=list)
    """(key, deadline on the monotonic clock in ms); None cancels. A key has one timer, which a new deadline moves."""
    after: Callable[[ErrorCode, Moment], "Outcome[Record]"] | None = None
    markers: list["TxnMarkersToSend"] = field(default_factory=list)
    log_lines: list[str] = field(default_factory=list)
    """One log line for each rebalance, fenced producer and the like."""
    host: str = ""
    """The address of the client that caused the outcome and its following ones; empty: a timer caused it."""
    rebalances_ms: list[int] = field(default_factory=list)
    """The duration of each completed rebalance, for metrics."""
    shares_batch: bool = False
    """The append may wait for the end of the loop pass, where such outcomes are written together, in their order. No
    other such outcome may depend on the state that these records change. `producer`, `after` and `markers` are not set.
    """

    def follow(self, code: ErrorCode, moment: Moment) -> "Outcome[Record] | None":
        """The outcome of `after`, caused by the same client."""
        if self.after is None:
            return None
        following = self.after(code, moment)
        following.host = following.host or self.host
        return following


class TxnMarkersToSend(NamedTuple):
    """The transaction is decided: its markers have to be written to all its partitions.

    The runtime calls `Shard.markers_written` when every partition has its marker or is deleted.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    partitions: frozenset[tuple[str, int]]
    transaction_version: int = 0
    """From version 2 on, a marker's epoch must be above the transaction's epoch (KIP-890)."""


class Shard(Protocol[Record]):
    """The state of one internal partition. Methods that return an `Outcome` do not change the replayed state."""

    def replay(self, record: Record, offset: int, producer: Producer | None) -> None:
        """Apply a record of the log at `offset`; with `producer` it is part of an open transaction."""

    def transaction_ended(self, producer_id: int, is_commit: bool, offset: int) -> None:
        """Apply the marker of a producer's transaction from the log."""

    def loaded(self, moment: Moment) -> Generator[Outcome[Record], None, Outcome[Record]]:
        """The whole log is replayed: set the timers of the state, in steps of a few milliseconds.

        Requests and `markers_written` come only after the returned outcome; timers may be due before.
        """

    def expired(self, key: Hashable, moment: Moment) -> Outcome[Record]:
        """The timer `key` is due."""

    def unloaded(self) -> Outcome[Record]:
        """The leadership ended or the log failed: respond to waiting requests (NOT_COORDINATOR), without records."""

    def markers_written(self, transactional_id: str, producer_epoch: int, moment: Moment) -> Outcome[Record]:
        """Every marker of a `TxnMarkersToSend` is written."""
