"""Every version of the APIs of groups, written and read by kio."""

from datetime import timedelta

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.handlers.coordinators.groups.describe_groups import GROUP_OPERATIONS
from kafkad.wire.api_table import DELETE_GROUPS, DESCRIBE_GROUPS, HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, LIST_GROUPS
from tests.core.groups.classic_bed import DELAY_MS, GROUP, ClassicBed
from tests.handlers.coordinators.group_calls import Call, beat, join, leave, sync
from tests.handlers.kio_calls import versions_of

NOT_REQUESTED = -(2**31)


def joined_member(bed: ClassicBed, version: int) -> tuple[str, Call]:
    """A member of generation 1, who leads it, and its join."""
    call = join(bed, version)
    if version >= 4:
        call = join(bed, version, call.answer.member_id)
    bed.advance(DELAY_MS)
    return call.answer.member_id, call


@pytest.mark.parametrize("version", versions_of(JOIN_GROUP))
def test_leader_joins_in_every_version(version: int) -> None:
    bed = ClassicBed()
    member_id, call = joined_member(bed, version)
    answer = call.answer
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert answer.leader == answer.member_id == member_id
    assert [(each.member_id, each.metadata) for each in answer.members] == [(member_id, b"metadata")]
    if version >= 5:
        assert answer.members[0].group_instance_id is None
    if version >= 7:
        assert answer.protocol_type == "consumer"
    if version >= 9:
        assert answer.skip_assignment is False


@pytest.mark.parametrize("version", versions_of(JOIN_GROUP))
def test_join_that_is_refused_has_no_generation_and_no_protocol(version: int) -> None:
    call = join(ClassicBed(), version, "stranger")
    answer = call.answer
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.UNKNOWN_MEMBER_ID, -1, "")
    assert (answer.member_id, answer.members) == ("stranger", ())
    assert answer.protocol_name == (None if version >= 7 else "")
    assert call.refused(ErrorCode.NOT_COORDINATOR).error_code == ErrorCode.NOT_COORDINATOR


def test_first_version_takes_the_session_timeout_for_the_rebalance() -> None:
    bed = ClassicBed()
    joined_member(bed, 0)
    assert [each.rebalance_timeout_ms for each in bed.group.members.values()] == [10_000]
    bed = ClassicBed()
    joined_member(bed, 1)
    assert [each.rebalance_timeout_ms for each in bed.group.members.values()] == [30_000]


@pytest.mark.parametrize("version", range(5, 10))
def test_static_member_joins_from_version_5(version: int) -> None:
    bed = ClassicBed()
    call = join(bed, version, group_instance_id="a")
    bed.advance(DELAY_MS)
    assert [each.group_instance_id for each in call.answer.members] == ["a"]


def test_returning_leader_is_told_to_skip_the_assignment() -> None:
    bed = ClassicBed()
    first = join(bed, 9, group_instance_id="a")
    bed.advance(DELAY_MS)
    sync(bed, 5, first.answer.member_id, 1)
    assert join(bed, 9, group_instance_id="a").answer.skip_assignment is True


@pytest.mark.parametrize("seconds, code", [(5, 26), (6, 79), (1800, 79), (1801, 26)])
def test_session_timeout_has_its_limits(seconds: int, code: int) -> None:
    call = join(ClassicBed(), 9, session_timeout=timedelta(seconds=seconds))
    assert call.answer.error_code == code


def test_reason_of_a_join_is_told() -> None:
    bed = ClassicBed()
    joined_member(bed, 8)
    assert bed.lines[-1].endswith("joins: a test")


@pytest.mark.parametrize("version", range(6))
def test_leader_syncs_in_every_version(version: int) -> None:
    bed = ClassicBed()
    member_id, _ = joined_member(bed, 9)
    answer = sync(bed, version, member_id, 1).answer
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"assignment")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("version", range(6))
def test_sync_that_is_refused_has_no_assignment(version: int) -> None:
    call = sync(ClassicBed(), version, "stranger", 1)
    assert (call.answer.error_code, call.answer.assignment) == (ErrorCode.UNKNOWN_MEMBER_ID, b"")
    assert call.refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS).error_code == 14


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_sync_has_to_name_its_protocol_from_version_5(missing: str) -> None:
    bed = ClassicBed()
    member_id, _ = joined_member(bed, 9)
    call = sync(bed, 5, member_id, 1, **{missing: None})
    assert call.answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", versions_of(HEARTBEAT))
def test_heartbeat_in_every_version(version: int) -> None:
    bed = ClassicBed()
    member_id, _ = joined_member(bed, 9)
    assert beat(bed, version, member_id, 1).answer.error_code == ErrorCode.NONE
    call = beat(bed, version, member_id, 2)
    assert call.answer.error_code == ErrorCode.ILLEGAL_GENERATION
    assert call.refused(ErrorCode.NOT_COORDINATOR).error_code == ErrorCode.NOT_COORDINATOR


def test_members_are_believed_while_their_group_is_loaded() -> None:
    call = beat(ClassicBed(), 4, "member", 1)
    assert call.refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", versions_of(LEAVE_GROUP))
def test_leave_in_every_version(version: int) -> None:
    bed = ClassicBed()
    member_id, _ = joined_member(bed, 9)
    answer = leave(bed, version, member_id).answer
    assert answer.error_code == ErrorCode.NONE
    if version >= 3:
        assert [(each.member_id, each.error_code) for each in answer.members] == [(member_id, ErrorCode.NONE)]
    assert bed.state == "Empty"


@pytest.mark.parametrize("version", versions_of(LEAVE_GROUP))
def test_leave_of_a_stranger_is_an_error_of_the_member_where_there_can_be_several(version: int) -> None:
    bed = ClassicBed()
    joined_member(bed, 9)
    call = leave(bed, version, "stranger")
    if version < 3:
        assert call.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        assert call.answer.error_code == ErrorCode.NONE
        assert [each.error_code for each in call.answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert call.refused(ErrorCode.NOT_COORDINATOR).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("name, version", [("join_group", 9), ("sync_group", 5), ("heartbeat", 4), ("leave_group", 5)])
def test_empty_group_id_is_refused(name: str, version: int) -> None:
    bed = ClassicBed()
    call = {
        "join_group": lambda: join(bed, version, group_id=""),
        "sync_group": lambda: sync(bed, version, "a", 1, group_id=""),
        "heartbeat": lambda: beat(bed, version, "a", 1, group_id=""),
        "leave_group": lambda: leave(bed, version, "a", group_id=""),
    }[name]()
    assert call.answer.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", versions_of(DESCRIBE_GROUPS))
def test_describe_groups_in_every_version(version: int) -> None:
    bed = ClassicBed()
    member_id, _ = joined_member(bed, 9)
    sync(bed, 5, member_id, 1)
    values = {"groups": (GROUP, "unknown", ""), "include_authorized_operations": True}
    call = Call(bed, "describe_groups", version, values)
    there, unknown, nameless = call.answer.groups
    assert (there.error_code, there.group_id, there.group_state) == (ErrorCode.NONE, GROUP, "Stable")
    assert (there.protocol_type, there.protocol_data) == ("consumer", "range")
    (member,) = there.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"metadata", b"assignment")
    for each in (unknown, nameless):
        assert (each.group_state, each.members) == ("Dead", ())
        assert each.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
    if version >= 3:
        assert there.authorized_operations == GROUP_OPERATIONS
        assert unknown.authorized_operations == (NOT_REQUESTED if version >= 6 else GROUP_OPERATIONS)
    if version >= 6:
        assert unknown.error_message == "Group unknown not found."
    refused = call.refused(ErrorCode.NOT_COORDINATOR)
    assert [(each.group_id, each.error_code) for each in refused.groups] == [
        (GROUP, ErrorCode.NOT_COORDINATOR),
        ("unknown", ErrorCode.NOT_COORDINATOR),
        ("", ErrorCode.NOT_COORDINATOR),
    ]


def test_operations_are_told_only_if_asked_for() -> None:
    bed = ClassicBed()
    joined_member(bed, 9)
    call = Call(bed, "describe_groups", 5, {"groups": (GROUP,), "include_authorized_operations": False})
    assert call.answer.groups[0].authorized_operations == NOT_REQUESTED


def test_metadata_of_members_is_shown_only_when_the_group_is_stable() -> None:
    bed = ClassicBed()
    joined_member(bed, 9)
    call = Call(bed, "describe_groups", 5, {"groups": (GROUP,), "include_authorized_operations": False})
    (group,) = call.answer.groups
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert group.members[0].member_metadata == b""


@pytest.mark.parametrize("version", versions_of(LIST_GROUPS))
def test_list_groups_in_every_version(version: int) -> None:
    bed = ClassicBed()
    joined_member(bed, 9)
    call = Call(bed, "list_groups", version, {"states_filter": (), "types_filter": ()})
    (group,) = call.answer.groups
    assert (group.group_id, group.protocol_type) == (GROUP, "consumer")
    if version >= 4:
        assert group.group_state == "CompletingRebalance"
    if version >= 5:
        assert group.group_type == "classic"
    assert call.refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    nobodys = call.refused(ErrorCode.NOT_COORDINATOR)
    assert (nobodys.error_code, nobodys.groups) == (ErrorCode.NONE, ())


@pytest.mark.parametrize(
    "states, types, count",
    [
        ((" completingREBALANCE ", "Stable"), (), 1),
        (("Stable",), (), 0),
        ((), ("CLASSIC",), 1),
        ((), ("consumer",), 0),
        ((), ("no such type",), 0),
        (("completingrebalance",), ("consumer", "classic"), 1),
    ],
)
def test_lists_are_filtered_whatever_the_case(states: tuple[str, ...], types: tuple[str, ...], count: int) -> None:
    bed = ClassicBed()
    joined_member(bed, 9)
    call = Call(bed, "list_groups", 5, {"states_filter": states, "types_filter": types})
    assert len(call.answer.groups) == count


@pytest.mark.parametrize("version", versions_of(DELETE_GROUPS))
def test_delete_groups_in_every_version(version: int) -> None:
    bed = ClassicBed()
    joined_member(bed, 9)
    join(bed, 9, group_id="empty")
    call = Call(bed, "delete_groups", version, {"groups_names": (GROUP, "empty", "unknown")})
    assert [(each.group_id, each.error_code) for each in call.answer.results] == [
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
        ("empty", ErrorCode.NONE),
        ("unknown", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert {each.error_code for each in call.refused(ErrorCode.NOT_COORDINATOR).results} == {16}
