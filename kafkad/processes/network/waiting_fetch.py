"""One Fetch that has not been answered: what was asked, what was found so far, how long it may wait for more."""

from collections.abc import Hashable
from typing import Protocol

from kafkad.core.sessions.fetch_session import FetchSession
from kafkad.core.waiting.purgatory import DelayedOperation
from kafkad.handlers.fetch import Measure
from kafkad.processes.network.connections.connection import Connection, Reply
from kafkad.wire.messages.fetch_request import FetchRequest

MANIFEST_PATIENCE_MS = 1_000
"""Owners answer at once unless they load; for so long a fetch waits for one that does, whatever its own time."""


class Look(Protocol):
    """Who can look at a fetch's session."""

    def is_enough(self, fetch: "WaitingFetch") -> bool: ...


class WaitingFetch(DelayedOperation[Hashable, Look]):
    """It watches its session."""

    __slots__ = (
        "connection",
        "is_full",
        "is_in_steps",
        "is_stale",
        "max_bytes",
        "measured",
        "min_bytes",
        "reply",
        "request",
        "session",
    )

    def __init__(
        self, reply: Reply, connection: Connection, request: FetchRequest, session: FetchSession, *, is_full: bool
    ) -> None:
        super().__init__(keys=(session,), deadline_ms=reply.context.deadline_ms(request.max_wait_ms))
        self.reply = reply
        self.connection = connection
        self.request = request
        self.session = session
        self.is_full = is_full
        self.max_bytes = request.max_bytes
        self.min_bytes = request.min_bytes
        self.measured: Measure | None = None
        self.is_in_steps = False
        """Somebody looks at its session, or makes its answer, in steps."""
        self.is_stale = False
        """What is looked at in steps has to be looked at again: a manifest has come."""

    def limit(self, max_bytes: int) -> None:
        """No more than this at once, and so no waiting for more."""
        self.max_bytes = min(self.max_bytes, max_bytes)
        self.min_bytes = min(self.min_bytes, self.max_bytes)

    def try_complete(self, view: Look) -> bool:
        is_enough = view.is_enough(self)
        if not is_enough and self.wants_manifest:
            # Where its records are is not known yet: too early to say in time that there are none at all.
            self.deadline_ms = max(self.deadline_ms, self.reply.context.deadline_ms(MANIFEST_PATIENCE_MS))
        return is_enough

    @property
    def wants_manifest(self) -> bool:
        """Or was not looked at to the end, so that nobody knows."""
        measured = self.measured
        return measured is None or (measured.needs_manifest and not measured.has_something_to_say)

    def try_complete_key(self, key: Hashable, view: Look) -> bool:
        return view.is_enough(self)
