"""Classic requests about groups of another type: their answers, and when such a group becomes a classic one."""

from collections.abc import Hashable

import pytest

from kafkad.core.coordinator.shard import Moment, Outcome
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.classic.messages import Heartbeat, Joined, JoinGroup, LeaveGroup, Left, SyncGroup
from kafkad.core.groups.classic.protocol import ClassicProtocol
from kafkad.core.groups.group import Expiration, Group, GroupType
from kafkad.core.groups.records import (
    ConsumerGroupMetadataRemoved,
    GroupMetadata,
    GroupMetadataRemoved,
    GroupRecord,
)
from tests.core.groups.classic_bed import GROUP, ClassicBed


class OtherGroup:
    """A group whose members don't speak the classic protocol."""

    group_id = GROUP
    state_name = "Stable"
    protocol_type = "consumer"

    def __init__(self, type: GroupType, *, is_empty: bool) -> None:
        self.type = type
        self.is_empty = is_empty

    @property
    def size(self) -> int:
        return 0 if self.is_empty else 1

    def has_member(self, member_id: str) -> bool:
        return not self.is_empty

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> None: ...

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed(self, topic: str) -> bool:
        return False

    def expiration(self) -> Expiration | None:
        return None

    def session_timer(self, member_id: str, moment: Moment) -> tuple[Hashable, int] | None:
        return None

    def tombstones(self) -> list[GroupRecord]:
        return [ConsumerGroupMetadataRemoved(group_id=GROUP)]


class Modern:
    """Answers everything with what it was asked."""

    def classic_join(self, group: Group, request: JoinGroup, token: int, moment: Moment) -> Outcome[GroupRecord]:
        return Outcome(replies=[(token, ("join", group.type))])

    def classic_sync(self, group: Group, request: SyncGroup, token: int, moment: Moment) -> Outcome[GroupRecord]:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)

    def classic_heartbeat(self, group: Group, request: Heartbeat, token: int, moment: Moment) -> Outcome[GroupRecord]:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def classic_leave(self, group: Group, request: LeaveGroup, token: int, moment: Moment) -> Outcome[GroupRecord]:
        return Outcome(replies=[(token, ("leave", group.type))])


def bed_with(group: OtherGroup, modern: Modern | None = None) -> ClassicBed:
    bed = ClassicBed()
    bed.shard.groups.add(group)
    bed.shard.classic = ClassicProtocol(bed.shard.groups, bed.config, lambda: "id", modern)
    return bed


@pytest.mark.parametrize("type", [GroupType.SHARE, GroupType.STREAMS, GroupType.CONSUMER])
def test_group_of_another_protocol_takes_no_classic_members(type: GroupType) -> None:
    bed = bed_with(OtherGroup(type, is_empty=False), Modern() if type is not GroupType.CONSUMER else None)
    assert bed.joined(bed.join()) == Joined(code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert bed.synced(bed.sync("m", 1)).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert bed.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert [each.code for each in bed.left(bed.leave("m")).members] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_members_of_a_consumer_group_may_speak_the_classic_protocol_where_that_is_known() -> None:
    bed = bed_with(OtherGroup(GroupType.CONSUMER, is_empty=False), Modern())
    assert bed.answers[bed.join()] == ("join", GroupType.CONSUMER)
    assert bed.synced(bed.sync("m", 1)).code is ErrorCode.FENCED_INSTANCE_ID
    assert bed.heartbeat("m", 1) is ErrorCode.ILLEGAL_GENERATION
    assert bed.answers[bed.leave("m")] == ("leave", GroupType.CONSUMER)


def test_empty_group_of_another_type_becomes_a_classic_one() -> None:
    bed = bed_with(OtherGroup(GroupType.CONSUMER, is_empty=True))
    assert bed.joined(bed.join()).code is ErrorCode.MEMBER_ID_REQUIRED
    assert bed.group.type is GroupType.CLASSIC
    assert [type(record) for record in bed.written()] == [ConsumerGroupMetadataRemoved, GroupMetadata]


def test_empty_group_of_another_type_stays_when_the_classic_one_can_not_be_written() -> None:
    other = OtherGroup(GroupType.CONSUMER, is_empty=True)
    bed = bed_with(other)
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    bed.join()
    assert bed.shard.groups.get(GROUP) is other


def test_empty_group_of_another_type_knows_no_classic_member() -> None:
    other = OtherGroup(GroupType.CONSUMER, is_empty=True)
    bed = bed_with(other)
    assert bed.joined(bed.join("old id")) == Joined(code=ErrorCode.UNKNOWN_MEMBER_ID, member_id="old id")
    assert bed.shard.groups.get(GROUP) is other
    assert isinstance(bed.answers[bed.leave("old id")], Left)


def test_tombstone_of_a_classic_group_does_not_remove_one_of_another_type() -> None:
    other = OtherGroup(GroupType.CONSUMER, is_empty=False)
    bed = bed_with(other)
    bed.perform(Outcome(records=[GroupMetadataRemoved(group_id=GROUP)]))
    assert bed.shard.groups.get(GROUP) is other


def test_record_of_a_classic_group_that_is_not_there_makes_it() -> None:
    bed = ClassicBed()
    bed.perform(
        Outcome(
            records=[GroupMetadata(group_id=GROUP, protocol_type="consumer", generation=4, protocol=None, leader=None)]
        )
    )
    assert (bed.state, bed.group.generation) == ("Empty", 4)
