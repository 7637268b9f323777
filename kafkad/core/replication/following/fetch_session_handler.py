"""The follower's end of an incremental fetch session (KIP-227): which partitions need not be named again?

The leader remembers the rows of earlier requests (core/sessions). Whatever is doubtful ends in a full request: it is
only longer. Named as in Apache Kafka.
"""

from collections.abc import Sequence

from kafkad.core.errors import ErrorCode
from kafkad.core.replication.following.requests import FULL, Fetched, FetchWanted, PartitionId, PartitionToFetch

NO_SESSION = 0
_LAST_EPOCH = 2**31 - 1


class FetchSessionHandler:
    """The session with one leader."""

    __slots__ = ("_epoch", "_rows", "_session_id", "_uses_topic_ids")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = FULL
        self._rows: dict[PartitionId, PartitionToFetch] = {}
        """What the leader knows, if the epoch is not FULL."""
        self._uses_topic_ids = True

    def next_request(self, wanted: Sequence[PartitionToFetch], *, uses_topic_ids: bool) -> FetchWanted:
        if uses_topic_ids != self._uses_topic_ids:
            self._uses_topic_ids = uses_topic_ids
            self._epoch = FULL
        rows = {row.id: row for row in wanted}
        partitions: Sequence[PartitionToFetch] = wanted
        forgotten: list[PartitionToFetch] = []
        if self._epoch != FULL:
            known = self._rows
            partitions = [row for row in wanted if known.get(row.id) != row]
            forgotten = [row for row in known.values() if row.id not in rows]
        self._rows = rows
        return FetchWanted(
            uses_topic_ids=uses_topic_ids,
            session_id=self._session_id,
            session_epoch=self._epoch,
            partitions=partitions,
            forgotten=forgotten,
        )

    def asked_for(self, id: PartitionId) -> PartitionToFetch | None:
        """The row that the leader's answer is about."""
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
