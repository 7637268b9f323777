"""Committed offsets: answers and their time, pending offsets of transactions, removal by time and deleted topics."""

from typing import Any
from uuid import UUID

import pytest

from kafkad.core.coordinator.shard import Caller, Outcome
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.group import PartitionCheck
from kafkad.core.groups.offsets import fetch
from kafkad.core.groups.offsets.expiration import DELETION_TIMER, EXPIRY_TIMER, OFFSETS_PER_STEP, TOMBSTONES_PER_STEP
from kafkad.core.groups.offsets.messages import (
    FetchedPartition,
    GroupFetch,
    OffsetCommit,
    OffsetDelete,
    PartitionCommit,
    TopicCommit,
    TopicFetch,
    TxnOffsetCommit,
)
from kafkad.core.groups.offsets.offset_metadata import Lag
from kafkad.core.groups.offsets.store import is_expired, pack
from kafkad.core.groups.records import GroupMember, GroupMetadata, GroupRecord, OffsetCommitted
from kafkad.core.log.records.batch import read_header
from tests.contexts import a_context
from tests.core.coordinator.memory_log import Bed, Refused
from tests.core.groups.offsets_bed import HOUR_MS, ORDERS, FewTopics, in_transaction, offsets_bed, one, plain

GroupBed = Bed[GroupRecord]
_NEWEST = 9
_WEEK_MS = 7 * 24 * HOUR_MS
_PRODUCER, _OTHER = 70, 71


def _commit(bed: GroupBed, request: OffsetCommit, *, version: int = _NEWEST) -> Any:
    return bed.answers[bed.ask(lambda caller: bed.shard.offsets.commit(request, caller, bed.moment), version=version)]


def _txn_commit(bed: GroupBed, request: TxnOffsetCommit) -> Any:
    return bed.answers[bed.ask(lambda caller: bed.shard.offsets.txn_commit(request, caller, bed.moment), version=4)]


def _fetch_groups(bed: GroupBed, groups: list[GroupFetch], *, stable: bool = False, version: int = _NEWEST) -> Any:
    def rule(caller: Caller) -> Outcome[GroupRecord]:
        outcome: Outcome[GroupRecord] = bed.shard.offsets.fetch(groups, caller, require_stable=stable)
        return outcome

    return bed.answers[bed.ask(rule, version=version)].groups


def _fetch(bed: GroupBed, group_id: str, topic: str, partition: int, *, stable: bool = False) -> FetchedPartition:
    (group,) = _fetch_groups(bed, [GroupFetch(group_id, [TopicFetch(topic, (partition,))])], stable=stable)
    found: FetchedPartition = group.topics[0].partitions[0]
    return found


def _delete(bed: GroupBed, group_id: str, *topics: tuple[str, list[int]]) -> Any:
    request = OffsetDelete(group_id, list(topics))
    return bed.answers[bed.ask(lambda caller: bed.shard.offsets.delete(request, caller))]


def _codes(reply: Any) -> list[ErrorCode]:
    return [code for topic in reply.topics for _, code in topic.partitions]


def _join(bed: GroupBed, group_id: str, *, generation: int = 3) -> None:
    """A stable group of consumers that read `orders`, as its record says."""
    subscription = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
    member = GroupMember(
        member_id="m",
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout=10_000,
        subscription=subscription,
        assignment=b"a",
    )
    record = GroupMetadata(
        group_id=group_id,
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader="m",
        current_state_timestamp=bed.moment.wall_ms,
        members=(member,),
    )
    bed.perform(Outcome(records=[record]))


def _leave(bed: GroupBed, group_id: str) -> None:
    """The group of `_join` has lost its member."""
    bed.perform(
        Outcome(
            records=[
                GroupMetadata(
                    group_id=group_id,
                    protocol_type="consumer",
                    generation=4,
                    protocol=None,
                    leader=None,
                    current_state_timestamp=bed.moment.wall_ms,
                )
            ]
        )
    )
    bed.crash()


# Commit and fetch.


def test_what_is_committed_is_fetched_also_after_a_crash() -> None:
    bed = offsets_bed()
    assert _codes(_commit(bed, plain("g", one("orders", 1, 42, leader_epoch=7, metadata="näher")))) == [ErrorCode.NONE]
    expected = FetchedPartition(1, 42, 7, "näher")
    assert _fetch(bed, "g", "orders", 1) == expected
    bed.crash()
    assert _fetch(bed, "g", "orders", 1) == expected


def test_nothing_committed_is_offset_minus_one_and_no_error() -> None:
    bed = offsets_bed()
    _commit(bed, plain("g", one("orders", 1, 42)))
    nothing = FetchedPartition(0, -1, -1, "", ErrorCode.NONE)
    assert _fetch(bed, "g", "orders", 0) == nothing
    assert _fetch(bed, "g", "never heard of", 0) == nothing
    assert _fetch(bed, "nobody", "orders", 0) == nothing


def test_commit_is_answered_when_it_is_safe() -> None:
    bed = offsets_bed()
    bed.log.lag()
    request = plain("g", one("orders", 0, 5))
    token = bed.ask(lambda caller: bed.shard.offsets.commit(request, caller, bed.moment), version=_NEWEST)
    assert token not in bed.answers
    bed.replicate()
    assert _codes(bed.answers[token]) == [ErrorCode.NONE]


def test_refused_append_leaves_the_old_offset() -> None:
    bed = offsets_bed()
    _commit(bed, plain("g", one("orders", 0, 5)))
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert _commit(bed, plain("g", one("orders", 0, 6))) == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert _fetch(bed, "g", "orders", 0).offset == 5


def test_all_topics_are_fetched_with_none_and_several_groups_at_once() -> None:
    bed = offsets_bed()
    _commit(bed, plain("a", one("orders", 1, 1), one("orders", 3, 3), one("payments", 0, 9)))
    _commit(bed, plain("b", one("payments", 1, 8)))
    a, b, c = _fetch_groups(bed, [GroupFetch("a", None), GroupFetch("b", None), GroupFetch("c", None)])
    assert [(topic.name, [row.offset for row in topic.partitions]) for topic in a.topics] == [
        ("orders", [1, 3]),
        ("payments", [9]),
    ]
    assert [(topic.name, [row.offset for row in topic.partitions]) for topic in b.topics] == [("payments", [8])]
    assert (c.topics, c.code) == ([], ErrorCode.NONE)


def test_what_is_told_of_very_many_offsets_does_not_change_while_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MAX_BUILT_ROWS", 2)
    bed = offsets_bed()
    for partition in range(4):
        _commit(bed, plain("g", one("orders", partition, 7)))
    _txn_commit(bed, in_transaction("g", _PRODUCER, one("orders", 3, 8)))
    (told,) = _fetch_groups(bed, [GroupFetch("g", None)], stable=True)
    bed.write_marker(_PRODUCER, 0, is_commit=True)
    _commit(bed, plain("g", one("orders", 0, 9)))
    ((_, _, rows),) = told.topics
    assert [(row.partition, row.offset, row.code) for row in rows] == [
        (0, 7, ErrorCode.NONE),
        (1, 7, ErrorCode.NONE),
        (2, 7, ErrorCode.NONE),
        (3, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT),
    ]


def test_unknown_topics_and_partitions_lose_only_their_own_commits() -> None:
    bed = offsets_bed()
    reply = _commit(bed, plain("g", one("orders", 9, 1), one("orders", 0, 2), one("nothing", 0, 3)))
    assert [(topic.name, topic.partitions) for topic in reply.topics] == [
        ("orders", [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (0, ErrorCode.NONE)]),
        ("nothing", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]
    assert _fetch(bed, "g", "orders", 0).offset == 2


@pytest.mark.parametrize(
    ("metadata", "is_taken"), [("x" * 10, True), ("x" * 11, False), ("𝄞" * 5, True), ("𝄞" * 6, False)]
)
def test_metadata_is_measured_in_utf_16(metadata: str, is_taken: bool) -> None:
    bed = offsets_bed(offset_metadata_max_bytes=10)
    reply = _commit(bed, plain("g", one("orders", 0, 2, metadata=metadata), one("orders", 1, 3)))
    assert _codes(reply) == [ErrorCode.NONE if is_taken else ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert _fetch(bed, "g", "orders", 0).metadata == (metadata if is_taken else "")
    assert _fetch(bed, "g", "orders", 1).offset == 3


def test_topics_are_named_by_id_from_version_10_on() -> None:
    bed = offsets_bed()
    by_id = TopicCommit("", [PartitionCommit(0, 5)], ORDERS)
    strange = TopicCommit("", [PartitionCommit(0, 5)], UUID(int=99))
    reply = _commit(bed, OffsetCommit("g", [by_id, strange]), version=10)
    assert {topic.topic_id: topic.partitions for topic in reply.topics} == {
        ORDERS: [(0, ErrorCode.NONE)],
        UUID(int=99): [(0, ErrorCode.UNKNOWN_TOPIC_ID)],
    }
    caller = [TopicFetch("", (0,), ORDERS), TopicFetch("", (0,), UUID(int=99))]
    (group,) = _fetch_groups(bed, [GroupFetch("g", caller)], version=10)
    assert [(topic.topic_id, topic.partitions[0].offset, topic.partitions[0].code) for topic in group.topics] == [
        (ORDERS, 5, ErrorCode.NONE),
        (UUID(int=99), -1, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    (everything,) = _fetch_groups(bed, [GroupFetch("g", None)], version=10)
    assert [topic.topic_id for topic in everything.topics] == [ORDERS]


def test_offset_of_a_topic_of_the_same_name_that_is_gone_is_none() -> None:
    topics = FewTopics()
    bed = offsets_bed(topics)
    _commit(bed, plain("g", one("orders", 0, 5)))
    again = UUID(int=0xAA)
    topics.by_name["orders"] = (again, 4)
    (group,) = _fetch_groups(bed, [GroupFetch("g", [TopicFetch("", (0,), again)])], version=10)
    assert group.topics[0].partitions == [FetchedPartition(0)]
    del topics.by_name["orders"]
    (everything,) = _fetch_groups(bed, [GroupFetch("g", None)], version=10)
    assert everything.topics == []


# Who may.


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_member_of_a_group_that_is_not_there_is_refused(version: int, code: ErrorCode) -> None:
    bed = offsets_bed()
    request = plain("g", one("orders", 0, 5), generation=1)
    assert _codes(_commit(bed, request, version=version)) == [code]
    assert _fetch(bed, "g", "orders", 0).offset == -1


def test_stranger_and_old_generation_are_refused_by_a_group_with_members() -> None:
    bed = offsets_bed()
    _join(bed, "g", generation=3)
    request = OffsetCommit("g", [one("orders", 0, 5)])
    assert _codes(_commit(bed, request)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert _codes(_commit(bed, request._replace(member_id="x", generation=3))) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert _codes(_commit(bed, request._replace(member_id="m", generation=2))) == [ErrorCode.ILLEGAL_GENERATION]
    assert _codes(_commit(bed, request._replace(member_id="m", generation=3))) == [ErrorCode.NONE]


def test_commit_of_a_member_keeps_its_session_alive() -> None:
    bed = offsets_bed()
    _join(bed, "g")
    request = OffsetCommit("g", [one("orders", 0, 5)], member_id="m", generation=3)
    outcome = bed.shard.offsets.commit(request, Caller(1, a_context(9)), bed.moment)
    assert [deadline for _, deadline in outcome.timers] == [bed.moment.monotonic_ms + 10_000]


class _OwnsPartitionZero(ClassicGroup):
    """A group that has something to say of each partition."""

    def check_offset_commit(  # type: ignore[override]  # Classic groups have not, those of KIP-848 do.
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> PartitionCheck | None:
        def check(topic_id: UUID, partition: int) -> None:
            if (topic_id, partition) != (ORDERS, 0):
                raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

        return check


@pytest.mark.interpreted
def test_partition_that_its_group_refuses_fails_the_whole_commit() -> None:
    bed = offsets_bed()
    bed.shard.groups.add(_OwnsPartitionZero("g", None))
    stale, illegal = ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION
    assert _codes(_commit(bed, plain("g", one("orders", 0, 5), one("orders", 1, 5)))) == [stale, stale]
    assert _codes(_txn_commit(bed, in_transaction("g", _PRODUCER, one("orders", 1, 5)))) == [illegal]
    assert bed.log.written == []
    assert _codes(_commit(bed, plain("g", one("orders", 0, 5)))) == [ErrorCode.NONE]
    assert _codes(_txn_commit(bed, in_transaction("g", _PRODUCER, one("orders", 0, 5)))) == [ErrorCode.NONE]


# Transactions.


def test_offsets_of_a_transaction_are_seen_when_it_commits() -> None:
    bed = offsets_bed()
    _commit(bed, plain("g", one("orders", 0, 1)))
    assert _codes(_txn_commit(bed, in_transaction("g", _PRODUCER, one("orders", 0, 5)))) == [ErrorCode.NONE]
    assert _fetch(bed, "g", "orders", 0).offset == 1
    assert _fetch(bed, "g", "orders", 0, stable=True) == FetchedPartition(0, code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert _fetch(bed, "g", "orders", 1, stable=True).code is ErrorCode.NONE
    bed.crash()
    bed.write_marker(_PRODUCER, 0, is_commit=True)
    assert _fetch(bed, "g", "orders", 0, stable=True).offset == 5
    bed.crash()
    assert _fetch(bed, "g", "orders", 0, stable=True).offset == 5


def test_offsets_of_an_aborted_transaction_are_never_seen() -> None:
    bed = offsets_bed()
    _txn_commit(bed, in_transaction("g", _PRODUCER, one("orders", 0, 5)))
    bed.write_marker(_PRODUCER, 0, is_commit=False)
    assert _fetch(bed, "g", "orders", 0, stable=True) == FetchedPartition(0)
    bed.crash()
    assert _fetch(bed, "g", "orders", 0, stable=True) == FetchedPartition(0)


def test_later_plain_commit_outlives_the_end_of_the_transaction() -> None:
    bed = offsets_bed()
    _txn_commit(bed, in_transaction("g", _PRODUCER, one("orders", 0, 5)))
    _commit(bed, plain("g", one("orders", 0, 6)))
    bed.write_marker(_PRODUCER, 0, is_commit=True)
    assert _fetch(bed, "g", "orders", 0).offset == 6


def test_of_two_transactions_the_one_that_wrote_last_counts() -> None:
    bed = offsets_bed()
    _txn_commit(bed, in_transaction("g", _PRODUCER, one("orders", 0, 5)))
    _txn_commit(bed, in_transaction("g", _OTHER, one("orders", 0, 6)))
    bed.write_marker(_OTHER, 0, is_commit=True)
    assert _fetch(bed, "g", "orders", 0, stable=True).code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    bed.write_marker(_PRODUCER, 0, is_commit=True)
    assert _fetch(bed, "g", "orders", 0, stable=True).offset == 6


def test_transactional_commit_without_a_group_id_or_group_is_refused() -> None:
    bed = offsets_bed()
    request = in_transaction("", _PRODUCER, one("orders", 0, 5))
    assert _codes(_txn_commit(bed, request)) == [ErrorCode.INVALID_GROUP_ID]
    request = in_transaction("g", _PRODUCER, one("orders", 0, 5), one("nothing", 0, 1))._replace(generation=1)
    assert _codes(_txn_commit(bed, request)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.ILLEGAL_GENERATION]
    assert bed.log.written == []


# Deletion.


def test_deleted_offsets_are_gone_with_what_transactions_hold() -> None:
    bed = offsets_bed()
    _commit(bed, plain("g", one("orders", 0, 1), one("orders", 1, 2)))
    _txn_commit(bed, in_transaction("g", _PRODUCER, one("orders", 2, 5)))
    reply = _delete(bed, "g", ("orders", [0, 2, 3, 17]), ("nothing", [0]))
    assert reply.code is ErrorCode.NONE
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(topic.name, topic.partitions) for topic in reply.topics] == [
        ("orders", [(17, unknown), (0, ErrorCode.NONE), (2, ErrorCode.NONE), (3, ErrorCode.NONE)]),
        ("nothing", [(0, unknown)]),
    ]
    bed.write_marker(_PRODUCER, 0, is_commit=True)
    for _ in range(2):
        assert [_fetch(bed, "g", "orders", partition).offset for partition in range(4)] == [-1, 2, -1, -1]
        bed.crash()


def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    bed = offsets_bed()
    _commit(bed, plain("g", one("orders", 0, 1), one("payments", 0, 2)))
    _join(bed, "g")
    bed.crash()
    reply = _delete(bed, "g", ("orders", [0]), ("payments", [0]))
    assert _codes(reply) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert [_fetch(bed, "g", topic, 0).offset for topic in ("orders", "payments")] == [1, -1]


def test_deleting_offsets_of_no_group_is_refused_as_a_whole() -> None:
    bed = offsets_bed()
    assert _delete(bed, "g", ("orders", [0])).code is ErrorCode.GROUP_ID_NOT_FOUND
    assert _delete(bed, "", ("orders", [0])).code is ErrorCode.INVALID_GROUP_ID


def test_deleted_group_leaves_nothing_behind() -> None:
    bed = offsets_bed()
    _commit(bed, plain("g", one("orders", 0, 1), one("orders", 1, 2)))
    _txn_commit(bed, in_transaction("g", _PRODUCER, one("orders", 1, 3), one("payments", 0, 5)))
    records = bed.shard.offsets.removal_records("g")
    assert [(each.topic, each.partition) for each in records] == [("orders", 0), ("orders", 1), ("payments", 0)]
    bed.perform(Outcome(records=records))
    bed.write_marker(_PRODUCER, 0, is_commit=True)
    assert bed.shard.offsets.count == 0
    assert bed.shard.offsets.removal_records("g") == []


def _delete_topic(bed: GroupBed, topic_id: UUID) -> None:
    bed.perform(bed.shard.offsets.topics_deleted({"orders": {topic_id}}, bed.moment))
    bed.advance(0)


def _largest_batch(bed: GroupBed, since: int) -> int:
    return max(read_header(memoryview(batch)).records_count for batch in bed.log.written[since:])


def test_topic_that_is_deleted_takes_its_offsets_with_it() -> None:
    bed = offsets_bed()
    for group in ("a", "b"):
        _commit(bed, plain(group, one("orders", 0, 1), one("payments", 0, 2)))
    _txn_commit(bed, in_transaction("c", _PRODUCER, one("orders", 1, 3)))
    _delete_topic(bed, UUID(int=99))
    assert _fetch(bed, "a", "orders", 0).offset == 1
    _delete_topic(bed, ORDERS)
    bed.write_marker(_PRODUCER, 0, is_commit=True)
    assert [_fetch(bed, group, "orders", 0).offset for group in "ab"] == [-1, -1]
    assert [_fetch(bed, group, "payments", 0).offset for group in "ab"] == [2, 2]
    assert _fetch(bed, "c", "orders", 1).offset == -1


def test_many_offsets_of_a_deleted_topic_go_in_several_batches() -> None:
    topics = FewTopics()
    topics.by_name["orders"] = (ORDERS, 2 * TOMBSTONES_PER_STEP + 1)
    bed = offsets_bed(topics)
    commits = [PartitionCommit(partition, 1) for partition in range(2 * TOMBSTONES_PER_STEP + 1)]
    _commit(bed, plain("g", TopicCommit("orders", commits)))
    before = len(bed.log.written)
    _delete_topic(bed, ORDERS)
    assert _largest_batch(bed, before) == TOMBSTONES_PER_STEP
    assert bed.shard.offsets.count == 0


def test_groups_are_looked_at_for_a_deleted_topic_in_steps() -> None:
    bed = offsets_bed()
    for number in range(OFFSETS_PER_STEP + 1):
        _commit(bed, plain(f"g{number}", one("orders" if number in (0, OFFSETS_PER_STEP) else "payments", 0, 1)))
    bed.perform(bed.shard.offsets.topics_deleted({"orders": {ORDERS}}, bed.moment))
    assert bed.shard.offsets.count == OFFSETS_PER_STEP + 1, "nothing happens at once"
    before = len(bed.log.written)
    bed.advance(0)
    assert len(bed.log.written) == before + 2
    assert bed.shard.offsets.count == OFFSETS_PER_STEP - 1
    assert bed.runtime.deadline_of(DELETION_TIMER) is None


def test_offsets_of_a_deleted_topic_go_when_the_log_takes_records_again() -> None:
    bed = offsets_bed()
    for group in ("a", "b"):
        _commit(bed, plain(group, one("orders", 0, 1)))
    bed.log.refusal = ErrorCode.KAFKA_STORAGE_ERROR
    _delete_topic(bed, ORDERS)
    bed.advance(10_000)
    assert bed.shard.offsets.count == 2
    bed.log.refusal = None
    bed.advance(1_000)
    assert bed.shard.offsets.count == 0


def test_offsets_that_are_committed_while_those_of_a_deleted_topic_go_stay() -> None:
    bed = offsets_bed()
    _commit(bed, plain("a", one("orders", 0, 1)))
    bed.perform(bed.shard.offsets.topics_deleted({"orders": {ORDERS}}, bed.moment))
    # The topic has been made again: who commits in a transaction gives no topic id.
    _txn_commit(bed, in_transaction("a", _PRODUCER, one("orders", 0, 7)))
    bed.write_marker(_PRODUCER, 0, is_commit=True)
    bed.advance(0)
    assert _fetch(bed, "a", "orders", 0).offset == 7


# Expiry (KIP-211).


def test_offsets_without_members_expire_a_week_after_their_commit() -> None:
    bed = offsets_bed()
    _commit(bed, plain("g", one("orders", 0, 1)))
    bed.advance(_WEEK_MS // 2)
    _commit(bed, plain("g", one("orders", 1, 2)))
    bed.advance(_WEEK_MS // 2 - HOUR_MS)
    assert _fetch(bed, "g", "orders", 0).offset == 1
    bed.advance(2 * HOUR_MS)
    assert [_fetch(bed, "g", "orders", partition).offset for partition in (0, 1)] == [-1, 2]
    bed.advance(_WEEK_MS // 2)
    assert bed.shard.offsets.count == 0
    assert bed.shard.groups.get("g") is None
    bed.crash()
    assert bed.shard.groups.get("g") is None


def test_offsets_of_a_group_that_lost_its_members_expire_a_week_after_that() -> None:
    bed = offsets_bed()
    _join(bed, "g")
    bed.crash()
    request = OffsetCommit("g", [one("orders", 0, 1)], member_id="m", generation=3)
    assert _codes(_commit(bed, request)) == [ErrorCode.NONE]
    bed.advance(3 * _WEEK_MS)
    assert _fetch(bed, "g", "orders", 0).offset == 1, "members read it"
    _leave(bed, "g")
    bed.advance(_WEEK_MS - HOUR_MS)
    assert _fetch(bed, "g", "orders", 0).offset == 1
    bed.advance(2 * HOUR_MS)
    assert _fetch(bed, "g", "orders", 0).offset == -1
    assert bed.shard.groups.get("g") is None


def test_members_keep_only_what_they_read() -> None:
    bed = offsets_bed()
    _commit(bed, plain("g", one("payments", 0, 1), one("orders", 0, 2)))
    _join(bed, "g")
    bed.crash()
    bed.advance(_WEEK_MS + HOUR_MS)
    assert [_fetch(bed, "g", topic, 0).offset for topic in ("payments", "orders")] == [-1, 2]


def test_retention_time_of_an_old_client_counts_for_its_commits() -> None:
    bed = offsets_bed()
    _commit(bed, plain("g", one("orders", 0, 1), retention_ms=HOUR_MS), version=4)
    _commit(bed, plain("g", one("orders", 1, 2), retention_ms=3 * _WEEK_MS), version=4)
    bed.crash()
    bed.advance(2 * HOUR_MS)
    assert [_fetch(bed, "g", "orders", partition).offset for partition in (0, 1)] == [-1, 2]
    bed.advance(2 * _WEEK_MS)
    assert _fetch(bed, "g", "orders", 1).offset == 2


@pytest.mark.parametrize("retention_ms", [0, -2, -(2**63), 2**63 - 1])
def test_retention_time_that_ends_in_the_past_or_beyond_64_bits_expires_at_once(retention_ms: int) -> None:
    bed = offsets_bed()
    _commit(bed, plain("g", one("orders", 0, 1), retention_ms=retention_ms), version=4)
    bed.crash()
    bed.advance(HOUR_MS)
    assert _fetch(bed, "g", "orders", 0).offset == -1


def test_offset_for_which_a_transaction_is_open_does_not_expire() -> None:
    bed = offsets_bed()
    _commit(bed, plain("g", one("orders", 0, 1), one("orders", 1, 1)))
    _txn_commit(bed, in_transaction("g", _PRODUCER, one("orders", 0, 5)))
    bed.advance(_WEEK_MS + HOUR_MS)
    assert [_fetch(bed, "g", "orders", partition).offset for partition in (0, 1)] == [1, -1]
    bed.write_marker(_PRODUCER, 0, is_commit=True)
    assert _fetch(bed, "g", "orders", 0).offset == 5
    bed.advance(HOUR_MS)
    assert bed.shard.groups.get("g") is None


def test_every_group_comes_to_its_turn() -> None:
    bed = offsets_bed(offsets_retention_ms=HOUR_MS, offsets_retention_check_interval_ms=HOUR_MS)
    for number in range(OFFSETS_PER_STEP // 2 + 1):
        _commit(bed, plain(f"g{number}", one("orders", 0, 1)))
    bed.advance(3 * HOUR_MS)
    assert bed.shard.offsets.count == len(bed.shard.groups) == 0
    assert bed.runtime.deadline_of(EXPIRY_TIMER) is not None


def _hourly(partitions: int) -> GroupBed:
    topics = FewTopics()
    topics.by_name["orders"] = (ORDERS, partitions)
    return offsets_bed(topics, offsets_retention_ms=HOUR_MS, offsets_retention_check_interval_ms=HOUR_MS)


@pytest.mark.parametrize(
    ("groups", "partitions", "batches"), [(4, TOMBSTONES_PER_STEP, 5), (1, 3 * TOMBSTONES_PER_STEP, 4)]
)
def test_step_of_expiry_is_bounded(groups: int, partitions: int, batches: int) -> None:
    bed = _hourly(partitions)
    for number in range(groups):
        _commit(
            bed, plain(f"g{number}", TopicCommit("orders", [PartitionCommit(each, 1) for each in range(partitions)]))
        )
    before = len(bed.log.written)
    bed.advance(3 * HOUR_MS)
    assert bed.shard.offsets.count == len(bed.shard.groups) == 0
    assert len(bed.log.written) == before + batches
    assert _largest_batch(bed, before) <= TOMBSTONES_PER_STEP + 1


def test_expiry_that_the_log_refuses_is_tried_again() -> None:
    bed = _hourly(4)
    for number in range(3):
        _commit(bed, plain(f"g{number}", one("orders", 0, 1)))
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    bed.advance(3 * HOUR_MS)
    assert bed.shard.offsets.count == 3
    bed.log.refusal = None
    bed.advance(2 * HOUR_MS)
    assert bed.shard.offsets.count == 0


@pytest.mark.parametrize(
    ("committed_ms", "expires_ms", "since_ms", "now_ms", "expected"),
    [
        (1_000, -1, None, 1_099, False),
        (1_000, -1, None, 1_100, True),
        (1_000, -1, 5_000, 5_099, False),
        (1_000, -1, 5_000, 5_100, True),
        (1_000, 1_050, None, 1_049, False),
        (1_000, 1_050, 5_000, 1_050, True),
        (1_000, 9_000, None, 8_999, False),
    ],
)
def test_offset_expires_at_its_own_time_or_when_it_was_kept_long_enough(
    committed_ms: int, expires_ms: int, since_ms: int | None, now_ms: int, expected: bool
) -> None:
    record = OffsetCommitted("g", "t", 0, 5, commit_timestamp=committed_ms, expire_timestamp=expires_ms)
    assert is_expired(pack(record, 0), since_ms, now_ms, retention_ms=100) is expected


# Lag.


def test_lag_is_summed_over_the_partitions_whose_end_is_known() -> None:
    bed = offsets_bed()
    _commit(bed, plain("g", one("orders", 0, 10), one("orders", 1, 20), one("orders", 2, 30), one("payments", 0, 1)))
    ends = {("orders", 0): 15, ("orders", 1): 22, ("orders", 2): 3}
    assert bed.shard.offsets.lag("g", lambda topic, partition: ends.get((topic, partition))) == Lag(5, 7)
    assert bed.shard.offsets.lag("nobody", lambda topic, partition: 1) == Lag(0, 0)
