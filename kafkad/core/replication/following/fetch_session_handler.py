"""The follower's end of an incremental fetch session (KIP-227): which partitions need not be named again?

The leader remembers the rows of earlier requests (core/sessions). Whatever is doubtful ends in a full request: it is
only longer. Named as in Apache Kafka. A request names MOST_ROWS partitions at most: the others come into the session
with the next requests, or have their turn one after the other where there is no session.
"""

from collections.abc import Sequence

from kafkad.core.errors import ErrorCode
from kafkad.core.replication.following.requests import FULL, Fetched, FollowerFetch, PartitionId, PartitionToFetch

NO_SESSION = 0
MOST_ROWS = 9_000
"""Named or forgotten. Leaders close the connection of a request with 20,000 elements (wire/request_limits); each row is
one, and has a topic, another one, to itself at worst."""
_LAST_EPOCH = 2**31 - 1


class FetchSessionHandler:
    """The session with one leader."""

    __slots__ = ("_asked_in", "_epoch", "_requests", "_rows", "_session_id", "_uses_topic_ids")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = FULL
        self._rows: dict[PartitionId, PartitionToFetch] = {}
        """What the leader knows, if the epoch is not FULL."""
        self._asked_in: dict[PartitionId, int] = {}
        """The last full request that named a partition, counted in `_requests`: if there were too many for one."""
        self._requests = 0
        self._uses_topic_ids = True

    def next_request(self, wanted: Sequence[PartitionToFetch], *, uses_topic_ids: bool) -> FollowerFetch:
        if uses_topic_ids != self._uses_topic_ids:
            self._uses_topic_ids = uses_topic_ids
            self._epoch = FULL
        partitions: Sequence[PartitionToFetch]
        forgotten: list[PartitionToFetch] = []
        if self._epoch == FULL:
            partitions = wanted if len(wanted) <= MOST_ROWS else self._longest_unasked(wanted)
            self._rows = {row.id: row for row in partitions}
        else:
            known, ids = self._rows, {row.id for row in wanted}
            forgotten = [row for row in known.values() if row.id not in ids][:MOST_ROWS]
            partitions = [row for row in wanted if known.get(row.id) != row][: MOST_ROWS - len(forgotten)]
            for row in forgotten:
                del known[row.id]
            known.update((row.id, row) for row in partitions)
        return FollowerFetch(
            uses_topic_ids=uses_topic_ids,
            session_id=self._session_id,
            session_epoch=self._epoch,
            partitions=partitions,
            forgotten=forgotten,
        )

    def _longest_unasked(self, wanted: Sequence[PartitionToFetch]) -> list[PartitionToFetch]:
        before = self._asked_in
        chosen = sorted(wanted, key=lambda row: before.get(row.id, 0))[:MOST_ROWS]
        self._requests += 1
        self._asked_in = {row.id: before.get(row.id, 0) for row in wanted}
        self._asked_in.update((row.id, self._requests) for row in chosen)
        return chosen

    def asked_for(self, id: PartitionId) -> PartitionToFetch | None:
        """The row that the leader's answer is about; it may be an earlier one if the request had no room for it."""
        return self._rows.get(id)

    def answered(self, answer: Fetched, named: Sequence[PartitionId | None]) -> bool:
        """Whether the answer fits the session; `named` has its partitions, None for one that is not known."""
        if answer.error:
            self.failed()
            if answer.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            return False
        was_full = self._epoch == FULL
        is_strange = any(id is None or id not in self._rows for id in named)
        if is_strange or (was_full and len(set(named)) < len(self._rows)):
            self._session_id, self._epoch = NO_SESSION, FULL
            return False
        self._session_id = answer.session_id
        if answer.session_id == NO_SESSION:
            self._epoch = FULL
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1
        return True

    def failed(self) -> None:
        """The answer is lost: the next request closes the session, if there is one, and begins another."""
        self._epoch = FULL
