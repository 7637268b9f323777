"""Records of __consumer_offsets: what is written is read again, and whatever the bytes are, reading them ends."""

from struct import pack
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.groups import records
from kafkad.core.groups.records import GroupMetadata, GroupMetadataRemoved, GroupRecord, OffsetCommitted, OffsetRemoved
from kafkad.wire.records.group_records import decode, encode
from kafkad.wire.records.record_schema import MalformedRecord

_INT8, _INT32, _INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (7, 31, 63))
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
_OPTIONAL = st.none() | _TEXT
_BYTES = st.binary(max_size=300)
_IDS = st.builds(UUID, int=st.integers(0, 2**128 - 1))


def _tuples(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(elements, max_size=3).map(tuple)


_MEMBERS = st.builds(
    records.GroupMember,
    member_id=_TEXT,
    group_instance_id=_OPTIONAL,
    client_id=_TEXT,
    client_host=_TEXT,
    rebalance_timeout=_INT32,
    session_timeout=_INT32,
    subscription=_BYTES,
    assignment=_BYTES,
)
_CLASSIC_MEMBERS = st.builds(
    records.ClassicMemberMetadata,
    session_timeout_ms=_INT32,
    supported_protocols=_tuples(st.builds(records.ClassicProtocol, name=_TEXT, metadata=_BYTES)),
)
_ASSIGNED = st.builds(
    records.AssignedPartitions,
    topic_id=_IDS,
    partitions=_tuples(_INT32),
    assignment_epochs=st.none() | _tuples(_INT32),
)
_COMMITS = st.builds(
    OffsetCommitted,
    group_id=_TEXT,
    topic=_TEXT,
    partition=_INT32,
    offset=_INT64,
    leader_epoch=_INT32,
    metadata=_TEXT,
    commit_timestamp=_INT64,
    expire_timestamp=st.just(-1),
    topic_id=_IDS,
)
_KEYED_BY_GROUP = {"group_id": _TEXT}
_KEYED_BY_MEMBER = {"group_id": _TEXT, "member_id": _TEXT}
_RECORDS: st.SearchStrategy[GroupRecord] = st.one_of(
    _COMMITS,
    _COMMITS.map(lambda each: each._replace(leader_epoch=-1, expire_timestamp=7, topic_id=UUID(int=0))),
    st.builds(OffsetRemoved, group_id=_TEXT, topic=_TEXT, partition=_INT32),
    st.builds(
        GroupMetadata,
        group_id=_TEXT,
        protocol_type=_TEXT,
        generation=_INT32,
        protocol=_OPTIONAL,
        leader=_OPTIONAL,
        current_state_timestamp=_INT64,
        members=_tuples(_MEMBERS),
    ),
    st.builds(GroupMetadataRemoved, **_KEYED_BY_GROUP),
    st.builds(records.ConsumerGroupMetadata, **_KEYED_BY_GROUP, epoch=_INT32, metadata_hash=_INT64),
    st.builds(records.ConsumerGroupMetadataRemoved, **_KEYED_BY_GROUP),
    st.builds(
        records.ConsumerGroupMemberMetadata,
        **_KEYED_BY_MEMBER,
        instance_id=_OPTIONAL,
        rack_id=_OPTIONAL,
        client_id=_TEXT,
        client_host=_TEXT,
        subscribed_topic_names=_tuples(_TEXT),
        subscribed_topic_regex=_OPTIONAL,
        rebalance_timeout_ms=_INT32,
        server_assignor=_OPTIONAL,
        classic_member_metadata=st.none() | _CLASSIC_MEMBERS,
    ),
    st.builds(records.ConsumerGroupMemberMetadataRemoved, **_KEYED_BY_MEMBER),
    st.builds(
        records.ConsumerGroupTargetAssignmentMetadata,
        **_KEYED_BY_GROUP,
        assignment_epoch=_INT32,
        assignment_timestamp=_INT64,
    ),
    st.builds(
        records.ConsumerGroupTargetAssignmentMember,
        **_KEYED_BY_MEMBER,
        topic_partitions=_tuples(st.builds(records.TopicPartitions, topic_id=_IDS, partitions=_tuples(_INT32))),
    ),
    st.builds(
        records.ConsumerGroupCurrentMemberAssignment,
        **_KEYED_BY_MEMBER,
        member_epoch=_INT32,
        previous_member_epoch=_INT32,
        state=_INT8,
        assigned_partitions=_tuples(_ASSIGNED),
        partitions_pending_revocation=_tuples(_ASSIGNED),
    ),
    st.builds(
        records.ConsumerGroupRegularExpression,
        group_id=_TEXT,
        regular_expression=_TEXT,
        topics=_tuples(_TEXT),
        version=_INT64,
        timestamp=_INT64,
    ),
    st.builds(records.ConsumerGroupRegularExpressionRemoved, group_id=_TEXT, regular_expression=_TEXT),
)


@given(_RECORDS)
def test_what_is_written_is_read_again(record: GroupRecord) -> None:
    key, value = encode(record)
    read = decode(key, value)
    assert read == record
    assert type(read) is type(record)


@given(_RECORDS, st.data())
def test_bytes_that_are_cut_off_are_refused(record: GroupRecord, data: st.DataObject) -> None:
    key, value = encode(record)
    with pytest.raises(MalformedRecord):
        decode(key[: data.draw(st.integers(0, len(key) - 1))], value)
    if value is not None:
        with pytest.raises(MalformedRecord):
            decode(key, value[: data.draw(st.integers(0, len(value) - 1))])


@given(_RECORDS, st.data())
def test_bytes_that_are_changed_are_read_or_refused(record: GroupRecord, data: st.DataObject) -> None:
    key, value = encode(record)
    changed = bytearray(key if value is None or data.draw(st.booleans()) else value)
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    both = (bytes(changed), value) if changed[:2] == key[:2] else (key, bytes(changed))
    try:
        decode(*both)
    except MalformedRecord as refused:
        assert str(refused)


@given(st.integers(0, 16), st.binary(max_size=80), st.none() | st.binary(max_size=80))
def test_noise_is_read_or_refused(key_type: int, key: bytes, value: bytes | None) -> None:
    try:
        decode(pack(">h", key_type) + key, value)
    except MalformedRecord as refused:
        assert str(refused)


@pytest.mark.parametrize("key_type", [9, 15, 17, 23, 24, 30_000, -1])
def test_key_types_of_others_are_nothing(key_type: int) -> None:
    assert decode(pack(">h", key_type) + b"whatever", b"\0\0") is None


@pytest.mark.parametrize("record", [OffsetCommitted("g", "t", 0, 1), GroupMetadataRemoved(group_id="g")])
def test_value_of_a_version_that_nobody_knows_is_refused(record: GroupRecord) -> None:
    key, _ = encode(record)
    with pytest.raises(MalformedRecord, match="version"):
        decode(key, pack(">h", 5) + bytes(100))


def test_unknown_tagged_fields_are_passed_over() -> None:
    key, value = encode(OffsetCommitted("g", "t", 0, 1, topic_id=UUID(int=7)))
    assert value is not None
    without_tags = value[:-19]
    later = without_tags + b"\x02" + value[-18:] + b"\x63\x03abc"
    assert decode(key, later) == OffsetCommitted("g", "t", 0, 1, topic_id=UUID(int=7))


def test_a_list_of_topics_that_many_members_share_is_written_for_each() -> None:
    shared, other, large = ("a", "b"), ("c",), tuple(f"topic-{number}" for number in range(100_000))
    for topics in (shared, shared, other, shared, (), large, large, shared):
        member = records.ConsumerGroupMemberMetadata(
            group_id="g",
            member_id="m",
            instance_id=None,
            rack_id=None,
            client_id="c",
            client_host="/h",
            subscribed_topic_names=topics,
            subscribed_topic_regex=None,
            rebalance_timeout_ms=1,
            server_assignor=None,
            classic_member_metadata=None,
        )
        key, value = encode(member)
        assert value is not None and decode(key, value) == member
