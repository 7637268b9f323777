"""One Fetch without a response."""

from collections.abc import Iterator

from kafkad.core.sessions.fetch_session import FetchSession, PartitionKey
from kafkad.core.waiting.timing_wheel import Timer
from kafkad.processes.network.connections.connection import Reply
from kafkad.wire.messages.fetch import PartitionData
from kafkad.wire.messages.fetch_request import FetchRequest


class PendingFetch(Timer):
    """A Fetch that is read, measured, answered or waits for records. While it waits it is its own timer."""

    __slots__ = (
        "absent",
        "changes",
        "done",
        "is_from_follower",
        "is_full",
        "is_large",
        "is_over",
        "is_stale",
        "is_waiting",
        "keys",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "reply",
        "request_epoch",
        "session",
        "session_epoch",
        "size",
        "steps",
        "unsent",
    )

    def __init__(self, reply: Reply, size: int) -> None:
        super().__init__(0)
        self.reply = reply
        self.size = size
        """The size of the request in bytes."""
        self.steps: Iterator[None] = iter(())
        self.session: FetchSession | None = None
        """None until the request is read."""
        self.session_epoch = self.request_epoch = 0
        """The epoch of the session after the request, and the epoch in the request."""
        self.is_full = False
        """Whether the request is a full one."""
        self.is_from_follower = False
        self.min_bytes = self.max_bytes = self.max_wait_ms = 0
        self.absent: frozenset[PartitionKey] | None = None
        """Partitions that did not exist at the first measurement."""
        self.changes: dict[PartitionKey, None] | None = None
        """The partitions that change while the session is measured in several steps."""
        self.keys: list[PartitionKey] = []
        """The partitions that are being measured."""
        self.done = 0
        """How many partitions the present stage has handled."""
        self.unsent: dict[str | bytes, list[PartitionData]] = {}
        """The partitions of the response that is being built, by topic."""
        self.is_large = False
        """Whether it counts as a large request in progress."""
        self.is_waiting = False
        """Whether it waits for an event of its session, for a manifest or for the deadline."""
        self.is_over = False
        """Whether the response is due, with any records: the deadline has passed or the broker stops."""
        self.is_stale = False
        """A manifest has arrived since the measurement began: it has to be repeated."""

    def begin(self, request: FetchRequest, session: FetchSession, most: int) -> None:
        """The request is read. `most` is the quota's limit for one response, so that the fetch waits for no more."""
        self.session = session
        self.session_epoch, self.request_epoch = session.epoch, request.session_epoch
        self.is_from_follower = request.replica_id >= 0
        self.max_wait_ms = request.max_wait_ms
        self.max_bytes = min(request.max_bytes, most)
        self.min_bytes = min(request.min_bytes, self.max_bytes)

    def advance(self, step: int, total: int) -> bool:
        """The next `step` of `total` partitions are handled; True if there are more."""
        self.done += step
        if self.done < total:
            return True
        self.done = 0
        return False
