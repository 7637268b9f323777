"""The follower's side of an incremental fetch session (KIP-227), named as in Apache Kafka.

The leader stores the rows of earlier requests (core/sessions); an incremental request has only changed rows. Any
inconsistency leads to a full request, which is only longer. A request names at most MAX_ROWS partitions: others enter
the session with the next requests, or take turns without a session.
"""

from collections.abc import Sequence

from kafkad.core.errors import ErrorCode
from kafkad.core.replication.following.requests import FULL, Fetched, FollowerFetch, PartitionId, PartitionToFetch

NO_SESSION = 0
MAX_ROWS = 9_000
"""Named or forgotten partitions. Leaders close the connection after a request with 20,000 elements
(wire/request_limits); each row is one element, and at worst has a topic, another element, of its own."""
_LAST_EPOCH = 2**31 - 1


class FetchSessionHandler:
    """The session with one leader."""

    __slots__ = ("_epoch", "_requested_in", "_requests", "_rows", "_session_id", "_uses_topic_ids")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = FULL
        self._rows: dict[PartitionId, PartitionToFetch] = {}
        """The rows that the leader has stored, unless the epoch is FULL."""
        self._requested_in: dict[PartitionId, int] = {}
        """The last full request with a partition, counted in `_requests`, if there are too many for one request."""
        self._requests = 0
        self._uses_topic_ids = True

    def next_request(self, rows: Sequence[PartitionToFetch], *, uses_topic_ids: bool) -> FollowerFetch:
        if uses_topic_ids != self._uses_topic_ids:
            self._uses_topic_ids = uses_topic_ids
            self._epoch = FULL
        partitions: Sequence[PartitionToFetch]
        forgotten: list[PartitionToFetch] = []
        if self._epoch == FULL:
            partitions = rows if len(rows) <= MAX_ROWS else self._least_recently_requested(rows)
            self._rows = {row.id: row for row in partitions}
        else:
            stored, ids = self._rows, {row.id for row in rows}
            forgotten = [row for row in stored.values() if row.id not in ids][:MAX_ROWS]
            partitions = [row for row in rows if stored.get(row.id) != row][: MAX_ROWS - len(forgotten)]
            for row in forgotten:
                del stored[row.id]
            stored.update((row.id, row) for row in partitions)
        return FollowerFetch(
            uses_topic_ids=uses_topic_ids,
            session_id=self._session_id,
            session_epoch=self._epoch,
            partitions=partitions,
            forgotten=forgotten,
        )

    def _least_recently_requested(self, rows: Sequence[PartitionToFetch]) -> list[PartitionToFetch]:
        before = self._requested_in
        chosen = sorted(rows, key=lambda row: before.get(row.id, 0))[:MAX_ROWS]
        self._requests += 1
        self._requested_in = {row.id: before.get(row.id, 0) for row in rows}
        self._requested_in.update((row.id, self._requests) for row in chosen)
        return chosen

    def requested_row(self, id: PartitionId) -> PartitionToFetch | None:
        """The row that the leader's response is about; it may be an earlier one if the request had no space for it."""
        return self._rows.get(id)

    def handle_response(self, response: Fetched, named: Sequence[PartitionId | None]) -> bool:
        """Whether the response fits the session; `named` has its partitions, None for an unknown one."""
        if response.error:
            self.failed()
            if response.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            return False
        was_full = self._epoch == FULL
        is_unexpected = any(id is None or id not in self._rows for id in named)
        if is_unexpected or (was_full and len(set(named)) < len(self._rows)):
            self._session_id, self._epoch = NO_SESSION, FULL
            return False
        self._session_id = response.session_id
        if response.session_id == NO_SESSION:
            self._epoch = FULL
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1
        return True

    def failed(self) -> None:
        """The response is lost: the next request closes the session, if there is one, and begins another."""
        self._epoch = FULL
