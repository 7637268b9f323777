"""One delayed Fetch: its request, its last measurement, its deadline."""

from collections.abc import Hashable
from typing import Protocol

from kafkad.core.sessions.fetch_session import FetchSession, PartitionKey
from kafkad.core.waiting.purgatory import DelayedOperation
from kafkad.handlers.partitions.fetch_measure import Measure
from kafkad.processes.network.connections.connection import Connection, Reply
from kafkad.wire.messages.fetch_request import FetchRequest

MANIFEST_TIMEOUT_MS = 1_000
"""How long a fetch waits for a manifest, for any max_wait_ms. Owners respond at once unless they load logs."""


class FetchCheck(Protocol):
    """Measures the session of a fetch."""

    def is_enough(self, fetch: "WaitingFetch") -> bool: ...


class WaitingFetch(DelayedOperation[Hashable, FetchCheck]):
    """A delayed operation that waits in the purgatory for changes of its session. It is its own timer."""

    __slots__ = (
        "absent",
        "connection",
        "error",
        "is_full",
        "is_in_steps",
        "is_stale",
        "max_bytes",
        "measured",
        "min_bytes",
        "reply",
        "request",
        "session",
        "session_epoch",
    )

    def __init__(
        self, reply: Reply, connection: Connection, request: FetchRequest, session: FetchSession, *, is_full: bool
    ) -> None:
        super().__init__(keys=(session,), deadline_ms=reply.context.deadline_ms(request.max_wait_ms))
        self.reply = reply
        self.connection = connection
        self.request = request
        self.session = session
        self.session_epoch = session.epoch
        self.is_full = is_full
        self.max_bytes = request.max_bytes
        self.min_bytes = request.min_bytes
        self.measured: Measure | None = None
        self.absent: frozenset[PartitionKey] | None = None
        """Partitions that did not exist at the first check."""
        self.error: Exception | None = None
        """The exception of a measurement: a bug, which closes the connection."""
        self.is_in_steps = False
        """Whether steps are measuring its session or building its response."""
        self.is_stale = False
        """A manifest has arrived: the measurement in progress has to be repeated."""

    @property
    def is_from_follower(self) -> bool:
        """Client quotas do not apply to followers, as in Apache Kafka: a throttled replica would leave the ISR."""
        return self.request.replica_id >= 0

    @property
    def is_outdated(self) -> bool:
        """Whether another request has continued the session meanwhile."""
        return not self.is_full and self.session.epoch != self.session_epoch

    def restarted(self) -> "WaitingFetch":
        """The same fetch before its first measurement."""
        again = WaitingFetch(self.reply, self.connection, self.request, self.session, is_full=self.is_full)
        again.absent = self.absent
        again.session_epoch = self.session_epoch
        return again

    def limit(self, max_bytes: int) -> None:
        """Lower the limits to `max_bytes`, the quota's limit for one response, so that the fetch waits for no more."""
        self.max_bytes = min(self.max_bytes, max_bytes)
        self.min_bytes = min(self.min_bytes, self.max_bytes)

    def check(self, view: FetchCheck) -> bool:
        """Whether the fetch can be completed: there are enough bytes, or measuring has raised."""
        try:
            return view.is_enough(self)
        except Exception as error:  # noqa: BLE001  the completion closes the connection
            self.error = error
            return True

    def is_found(self, measure: Measure) -> bool:
        """Whether this measurement is enough to complete the fetch before its deadline."""
        if self.absent is None:
            self.absent = frozenset(measure.absent)
        if measure.needs_manifest and not measure.has_content:
            return False
        return (
            measure.is_urgent
            or measure.bytes_found >= self.min_bytes
            or self.request.max_wait_ms <= 0
            or len(self.session.partitions) == len(measure.absent)
        )

    def try_complete(self, view: FetchCheck) -> bool:
        is_enough = self.check(view)
        if not is_enough and self.waits_for_manifest:
            # The records are not located yet: too early to respond without records.
            self.deadline_ms = max(self.deadline_ms, self.reply.context.deadline_ms(MANIFEST_TIMEOUT_MS))
        return is_enough

    @property
    def waits_for_manifest(self) -> bool:
        """Whether the fetch waits for a manifest, or was not measured completely."""
        measured = self.measured
        return measured is None or (measured.needs_manifest and not measured.has_content)

    def try_complete_key(self, key: Hashable, view: FetchCheck) -> bool:
        return self.check(view)
