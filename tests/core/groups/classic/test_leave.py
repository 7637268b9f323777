"""Heartbeats and leaves: their answers, and what a group does when members leave."""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.messages import LeavingMember
from tests.core.groups.classic_bed import DELAY_MS, SESSION_MS, ClassicBed


def test_heartbeat_keeps_a_session_alive() -> None:
    bed = ClassicBed()
    (only,) = bed.stable(1)
    for _ in range(5):
        bed.advance(SESSION_MS - 1)
        assert bed.heartbeat(only, 1) is ErrorCode.NONE
    bed.advance(SESSION_MS)
    assert bed.heartbeat(only, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeat_before_the_assignment_is_there_is_a_heartbeat() -> None:
    bed = ClassicBed()
    member_id, _ = bed.member()
    bed.advance(DELAY_MS)
    assert bed.state == "CompletingRebalance"
    assert bed.heartbeat(member_id, 1) is ErrorCode.NONE


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_heartbeat_of_another_generation_is_refused(generation: int) -> None:
    bed = ClassicBed()
    (only,) = bed.stable(1)
    assert bed.heartbeat(only, generation) is ErrorCode.ILLEGAL_GENERATION


def test_heartbeat_of_a_stranger_is_refused() -> None:
    bed = ClassicBed()
    assert bed.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    bed.stable(1)
    assert bed.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeat_of_a_pending_id_is_refused() -> None:
    bed = ClassicBed()
    member_id = bed.joined(bed.join()).member_id
    assert bed.heartbeat(member_id, 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_leaves_makes_the_others_rebalance() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    bed.leave(LeavingMember(member_id=leader, reason="the consumer is being closed"))
    assert bed.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bed.group.leader == follower
    assert bed.lines[-1].endswith(f"members left: {leader} (the consumer is being closed)")


def test_last_member_that_leaves_empties_the_group_at_once() -> None:
    bed = ClassicBed()
    (only,) = bed.stable(1)
    assert [each.code for each in bed.left(bed.leave(only)).members] == [ErrorCode.NONE]
    assert bed.state == "Empty"


def test_members_that_leave_together_are_answered_each_and_cause_one_rebalance() -> None:
    bed = ClassicBed()
    first, second, third = bed.stable(3)
    bed.lines.clear()
    left = bed.left(bed.leave(first, "stranger", second, first))
    assert [each.code for each in left.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(bed.group.members) == [third]
    assert len(bed.lines) == 1


def test_leave_of_strangers_only_changes_nothing() -> None:
    bed = ClassicBed()
    bed.stable(2)
    bed.leave("stranger", LeavingMember(member_id="", instance_id="z"), LeavingMember(member_id=""))
    assert bed.state == "Stable"


def test_leave_of_a_group_that_is_not_there_is_refused_for_each() -> None:
    bed = ClassicBed()
    left = bed.left(bed.leave("a", LeavingMember(member_id="", instance_id="b")))
    assert left.code is ErrorCode.NONE
    assert [each.code for each in left.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_pending_id_may_leave() -> None:
    bed = ClassicBed()
    member_id = bed.joined(bed.join()).member_id
    assert [each.code for each in bed.left(bed.leave(member_id)).members] == [ErrorCode.NONE]
    assert bed.joined(bed.join(member_id)).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_last_that_was_waited_for_completes_the_rebalance_by_leaving() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    token = bed.join(leader)
    bed.leave(follower)
    assert bed.joined(token).generation == 2


def test_initial_rebalance_goes_on_when_a_member_leaves() -> None:
    bed = ClassicBed()
    (first, _), (_, token) = bed.member(), bed.member()
    bed.leave(first)
    assert token in bed.unanswered()
    bed.advance(DELAY_MS * 2)
    assert bed.joined(token).generation == 1


def test_waiting_requests_of_a_member_that_leaves_are_answered() -> None:
    bed = ClassicBed()
    (first, join), (second, _) = bed.member(), bed.member()
    bed.leave(first)
    assert bed.joined(join).code is ErrorCode.UNKNOWN_MEMBER_ID
    third, _ = bed.member()
    bed.advance(DELAY_MS * 3)
    assert bed.group.leader == second
    sync = bed.sync(third, 1)
    bed.leave(third)
    assert bed.synced(sync).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_line_about_many_that_left_names_some() -> None:
    bed = ClassicBed()
    members = bed.stable(8)
    bed.leave(*members[:7])
    assert bed.lines[-1].endswith(f"{members[4]} (not provided) and 2 more")
