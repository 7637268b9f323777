"""The offsets of the groups of one partition of `__consumer_offsets` (KIP-98, 211, 447, 848).

Requests lead to records and a reply; only `replay_…` and `transaction_ended` change committed offsets. The group
decides whether a member may commit.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from typing import NamedTuple
from uuid import UUID

from kafkad.core.coordinator.shard import Caller, Moment, Outcome, Producer
from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.offsets.commit import BY_TOPIC_ID_FROM, OffsetCommitRules, OffsetGroups
from kafkad.core.groups.offsets.expiration import OffsetSweeps
from kafkad.core.groups.offsets.fetch import fetch_group
from kafkad.core.groups.offsets.messages import (
    CommitReply,
    DeleteReply,
    FetchReply,
    GroupFetch,
    OffsetCommit,
    OffsetDelete,
    TxnOffsetCommit,
)
from kafkad.core.groups.offsets.pending import PendingOffsets
from kafkad.core.groups.offsets.results import Results
from kafkad.core.groups.offsets.store import CommittedOffsets, is_later, pack, position, topic_id
from kafkad.core.groups.records import GroupRecord, OffsetCommitted, OffsetRemoved
from kafkad.core.types import NO_TOPIC_ID


class Lag(NamedTuple):
    """The lag of a group in records, over partitions with a known log end offset."""

    max: int
    sum: int


class GroupOffsets:
    """All offsets of one shard."""

    def __init__(self, groups: OffsetGroups, topics: Topics, config: GroupConfig) -> None:
        self._groups = groups
        self._topics = topics
        self._committed = CommittedOffsets()
        self._pending = PendingOffsets()
        self._rules = OffsetCommitRules(groups, topics, config)
        self._sweeps = OffsetSweeps(groups, self._committed, self._pending, config)

    @property
    def count(self) -> int:
        """The number of committed offsets of all groups."""
        return self._committed.count

    # Requests.

    def commit(self, request: OffsetCommit, caller: Caller, moment: Moment) -> Outcome[GroupRecord]:
        records, results, timer, creates_group = self._rules.commit(request, caller.version, moment)
        return Outcome(
            records=list(records),
            replies=[(caller.token, CommitReply(results))],
            timers=[] if timer is None else [timer],
            # A commit does not depend on offsets committed before it, but on whether the group exists.
            shares_batch=not creates_group,
        )

    def txn_commit(self, request: TxnOffsetCommit, caller: Caller, moment: Moment) -> Outcome[GroupRecord]:
        """The log checks the producer's transaction when the records are appended."""
        records, results, _, _ = self._rules.txn_commit(request, caller.version, moment)
        return Outcome(
            records=list(records),
            producer=Producer(request.producer_id, request.producer_epoch) if records else None,
            replies=[(caller.token, CommitReply(results))],
        )

    def fetch(self, groups: list[GroupFetch], caller: Caller, *, require_stable: bool) -> Outcome[GroupRecord]:
        """A reply without records: the runtime delays it until all earlier records are committed."""
        topics = self._topics if caller.version >= BY_TOPIC_ID_FROM else None
        pending = self._pending if require_stable else None
        fetched = [
            fetch_group(request, self._groups.get(request.group_id), self._committed, pending, topics)
            for request in groups
        ]
        return Outcome(replies=[(caller.token, FetchReply(fetched))])

    def delete(self, request: OffsetDelete, caller: Caller) -> Outcome[GroupRecord]:
        records: list[GroupRecord] = []
        try:
            reply = self._delete(request, records)
        except KafkaError as error:
            reply = DeleteReply([], error.code)
        return Outcome(records=records, replies=[(caller.token, reply)])

    def removal_records(self, group_id: str) -> list[OffsetRemoved]:
        """The records that remove all committed and pending offsets of the group, for DeleteGroups."""
        rows = [
            (topic, partition)
            for topic, partitions in self._committed.of_group(group_id).items()
            for partition in partitions
        ]
        rows += [row for row in self._pending.of_group(group_id) if self._committed.get(group_id, *row) is None]
        return [OffsetRemoved(group_id, topic, partition) for topic, partition in rows]

    # Replay.

    def replay_committed(self, record: OffsetCommitted, offset: int, producer: Producer | None) -> None:
        self._groups.replay_offset(record.group_id)
        self._sweeps.newest = offset
        packed = pack(record, offset)
        if producer is None:
            self._committed.put(record.group_id, record.topic, record.partition, packed)
        else:
            self._pending.put(producer.producer_id, (record.group_id, record.topic, record.partition), packed)

    def replay_removed(self, record: OffsetRemoved) -> None:
        self._committed.remove(record.group_id, record.topic, record.partition)
        self._pending.remove((record.group_id, record.topic, record.partition))

    def transaction_ended(self, producer_id: int, *, is_commit: bool) -> None:
        pending = self._pending.take(producer_id)
        if not is_commit:
            return
        for key, packed in pending.items():
            existing = self._committed.get(*key)
            # The later record wins, plain or transactional, regardless of the end of the transaction, as in compaction.
            if existing is None or is_later(packed, existing):
                self._committed.put(*key, packed)

    # Time and deleted topics.

    def loaded(self, moment: Moment) -> tuple[Hashable, int]:
        """The timer of the first round after loading."""
        return self._sweeps.next_round(moment)

    def sweep(self, key: Hashable, moment: Moment) -> Outcome[GroupRecord]:
        """For `SWEEP_TIMERS`: a bounded step over the groups, which sets the timer again."""
        return self._sweeps.step(key, moment)

    def topics_deleted(self, ids: Mapping[str, Set[UUID]], moment: Moment) -> Outcome[GroupRecord]:
        """Start to remove the offsets of deleted topics, given as all ids by name."""
        return self._sweeps.topics_deleted(ids, moment)

    def lag(self, group_id: str, log_end_of: Callable[[str, int], int | None]) -> Lag:
        lags = [0]
        for topic, partitions in self._committed.of_group(group_id).items():
            for partition, packed in partitions.items():
                end = log_end_of(topic, partition)
                if end is not None:
                    lags.append(max(0, end - position(packed).offset))
        return Lag(max(lags), sum(lags))

    def committed_by(self, prefix: str) -> Iterator[tuple[str, int, UUID | None, int]]:
        """The committed offsets of groups with this name prefix: topic, partition, topic id if known, offset."""
        for group_id in self._committed.groups():
            if group_id.startswith(prefix):
                for topic, partitions in self._committed.of_group(group_id).items():
                    for partition, packed in partitions.items():
                        yield topic, partition, topic_id(packed), position(packed).offset

    def _delete(self, request: OffsetDelete, records: list[GroupRecord]) -> DeleteReply:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_offset_delete()
        results = Results()
        for topic, partitions in request.topics:
            count = self._topics.partitions_of(topic) or 0
            existing = [partition for partition in partitions if 0 <= partition < count]
            if len(existing) != len(partitions):
                missing = [partition for partition in partitions if not 0 <= partition < count]
                results.unknown(topic, NO_TOPIC_ID, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if existing:
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed(topic) else ErrorCode.NONE
                results.of(topic, NO_TOPIC_ID).extend((partition, code) for partition in existing)
                removed = existing if code is ErrorCode.NONE else []
                records += [
                    OffsetRemoved(request.group_id, topic, partition)
                    for partition in removed
                    if self._has_any(request.group_id, topic, partition)
                ]
        return DeleteReply(results.rows())

    def _has_any(self, group_id: str, topic: str, partition: int) -> bool:
        is_committed = self._committed.get(group_id, topic, partition) is not None
        return is_committed or self._pending.has(group_id, topic, partition)
