"""May these offsets be committed, and in which records?

For plain and transactional commits. Nothing changes here. An unknown topic rejects only its own partitions; a member
that must not commit is rejected for all partitions.
"""

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from kafkad.core.coordinator.shard import Moment
from kafkad.core.coordinator.topics import Topics
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.group import Group, PartitionCheck
from kafkad.core.groups.offsets.messages import NO_RETENTION, OffsetCommit, TopicCommit, TopicResult, TxnOffsetCommit
from kafkad.core.groups.offsets.results import Results
from kafkad.core.groups.records import OffsetCommitted
from kafkad.core.types import NO_LEADER_EPOCH, NO_TIMESTAMP, NO_TOPIC_ID

BY_TOPIC_ID_FROM = 10
_GROUP_ID_NOT_FOUND_FROM = 9
_INT64 = 2**64


class OffsetGroups(Protocol):
    """The groups that offsets belong to."""

    def get(self, group_id: str) -> Group | None: ...

    def ids(self) -> list[str]: ...

    def replay_offset(self, group_id: str) -> None:
        """Create the group if it does not exist: clients without a group commit offsets too."""


class CommitEffects(NamedTuple):
    """The effects of a commit. `timer` is the session timer that it restarts; `creates_group`: the group is new."""

    records: list[OffsetCommitted]
    results: list[TopicResult]
    timer: tuple[Hashable, int] | None = None
    creates_group: bool = False


class OffsetCommitRules:
    def __init__(self, groups: OffsetGroups, topics: Topics, config: GroupConfig) -> None:
        self._groups = groups
        self._topics = topics
        self._max_metadata = config.offset_metadata_max_bytes

    def commit(self, request: OffsetCommit, version: int, moment: Moment) -> CommitEffects:
        existing, results = self._resolve(request.topics, by_id=version >= BY_TOPIC_ID_FROM)
        if not existing:
            return CommitEffects([], results.rows())
        missing = ErrorCode.ILLEGAL_GENERATION
        if version >= _GROUP_ID_NOT_FOUND_FROM:
            missing = ErrorCode.GROUP_ID_NOT_FOUND
        try:
            group, check = self._check(request, version, missing=missing, is_transactional=False)
            _check_partitions(existing, check)
        except KafkaError as error:
            return _reject_all(existing, error.code, results)
        expires = NO_TIMESTAMP
        if request.retention_ms != NO_RETENTION:
            # A time beyond 64 bits wraps, as in Apache Kafka: the offset then expires at once.
            expires = (moment.wall_ms + request.retention_ms + _INT64 // 2) % _INT64 - _INT64 // 2
        records = self._records(request.group_id, existing, moment.wall_ms, expires, results)
        timer = None if group is None else group.session_timer(request.member_id, moment)
        return CommitEffects(records, results.rows(), timer, creates_group=group is None)

    def txn_commit(self, request: TxnOffsetCommit, version: int, moment: Moment) -> CommitEffects:
        existing, results = self._resolve(request.topics, by_id=False)
        if not existing:
            return CommitEffects([], results.rows())
        if not request.group_id:
            return _reject_all(existing, ErrorCode.INVALID_GROUP_ID, results)
        try:
            _, check = self._check(request, version, missing=ErrorCode.ILLEGAL_GENERATION, is_transactional=True)
            _check_partitions(existing, check)
        except KafkaError as error:
            # Producers do not support the error codes of KIP-848.
            is_stale = error.code is ErrorCode.STALE_MEMBER_EPOCH
            return _reject_all(existing, ErrorCode.ILLEGAL_GENERATION if is_stale else error.code, results)
        records = self._records(request.group_id, existing, moment.wall_ms, NO_TIMESTAMP, results)
        # Apache Kafka writes no topic id into the offsets of transactions.
        return CommitEffects([record._replace(topic_id=NO_TOPIC_ID) for record in records], results.rows())

    def _check(
        self, request: OffsetCommit | TxnOffsetCommit, version: int, *, missing: ErrorCode, is_transactional: bool
    ) -> tuple[Group | None, PartitionCheck | None]:
        """Without a group only clients outside of a generation may commit."""
        group = self._groups.get(request.group_id)
        if group is None:
            if request.generation >= 0:
                raise KafkaError(missing)
            return None, None
        check = group.check_offset_commit(
            request.member_id,
            request.instance_id,
            request.generation,
            is_transactional=is_transactional,
            version=version,
        )
        return group, check

    def _resolve(self, topics: list[TopicCommit], *, by_id: bool) -> tuple[list[TopicCommit], Results]:
        """The existing topics, each with name and id; the results get errors for the others."""
        existing, results = [], Results()
        for name, partitions, topic_id in topics:
            if by_id:
                name = self._topics.name_of(topic_id) or ""
            else:
                topic_id = self._topics.id_of(name) or NO_TOPIC_ID
            count = self._topics.partitions_of(name) if name else None
            if count is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                results.unknown(name, topic_id, [commit.partition for commit in partitions], code)
                continue
            valid = [commit for commit in partitions if 0 <= commit.partition < count]
            if len(valid) != len(partitions):
                missing = [commit.partition for commit in partitions if not 0 <= commit.partition < count]
                results.unknown(name, topic_id, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if valid:
                existing.append(TopicCommit(name, valid, topic_id))
        return existing, results

    def _records(
        self, group_id: str, topics: list[TopicCommit], now_ms: int, expires: int, results: Results
    ) -> list[OffsetCommitted]:
        records = []
        for name, partitions, topic_id in topics:
            row = results.of(name, topic_id)
            for partition, offset, leader_epoch, metadata in partitions:
                if metadata and _java_length(metadata) > self._max_metadata:
                    row.append((partition, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                    continue
                if expires != NO_TIMESTAMP:
                    # Records with an expiration time are of an old version without these fields.
                    leader_epoch, topic_id = NO_LEADER_EPOCH, NO_TOPIC_ID
                text = metadata or ""
                records.append(
                    OffsetCommitted(group_id, name, partition, offset, leader_epoch, text, now_ms, expires, topic_id)
                )
                row.append((partition, ErrorCode.NONE))
        return records


def _check_partitions(topics: list[TopicCommit], check: PartitionCheck | None) -> None:
    """One rejected partition rejects the whole commit."""
    if check is not None:
        for _, partitions, topic_id in topics:
            for commit in partitions:
                check(topic_id, commit.partition)


def _reject_all(topics: list[TopicCommit], code: ErrorCode, results: Results) -> CommitEffects:
    for name, partitions, topic_id in topics:
        results.of(name, topic_id).extend((commit.partition, code) for commit in partitions)
    return CommitEffects([], results.rows())


def _java_length(text: str) -> int:
    """The length in UTF-16 units, as Apache Kafka measures metadata."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
