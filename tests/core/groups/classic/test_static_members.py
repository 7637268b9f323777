"""Static members (KIP-345): who may use an instance id, and when a return makes the group rebalance."""

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.messages import Joined, LeavingMember
from kafkad.core.groups.records import GroupMetadata
from tests.core.coordinator.memory_log import Refused
from tests.core.groups.classic_bed import DELAY_MS, RANGE, REBALANCE_MS, SESSION_MS, ClassicBed

BOTH = (*RANGE, ("roundrobin", b"rr"))


def test_returning_follower_takes_its_place_without_a_rebalance() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(instance_ids=["a", "b"])
    answer = bed.joined(bed.join(instance_id="b"))
    assert answer.code is ErrorCode.NONE
    assert answer.member_id not in (leader, follower)
    assert (answer.generation, answer.leader, answer.skip_assignment) == (1, leader, False)
    assert bed.state == "Stable"
    assert bed.synced(bed.sync(answer.member_id, 1)).assignment == f"for {follower}".encode()


def test_returning_leader_is_told_of_all_but_not_to_assign() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(instance_ids=["a", "b"])
    answer = bed.joined(bed.join(instance_id="a"))
    assert answer.leader == answer.member_id
    assert answer.skip_assignment
    assert {each.member_id for each in answer.members} == {answer.member_id, follower}
    assert bed.synced(bed.sync(answer.member_id, 1)).assignment == f"for {leader}".encode()


def test_returning_leader_before_version_9_is_not_told_that_it_leads() -> None:
    bed = ClassicBed()
    leader, _ = bed.stable(instance_ids=["a", "b"])
    answer = bed.joined(bed.join(instance_id="a", version=8))
    assert (answer.leader, answer.members, answer.skip_assignment) == (leader, (), False)
    assert bed.group.leader == answer.member_id


def test_new_id_of_a_returning_member_is_written() -> None:
    bed = ClassicBed()
    bed.stable(instance_ids=["a", "b"])
    new = bed.joined(bed.join(instance_id="b")).member_id
    record = bed.written()[-1]
    assert isinstance(record, GroupMetadata)
    assert {member.group_instance_id: member.member_id for member in record.members}["b"] == new
    assert record.generation == 1


def test_old_id_of_a_returned_member_is_fenced_everywhere() -> None:
    bed = ClassicBed()
    _, old = bed.stable(instance_ids=["a", "b"])
    bed.join(instance_id="b")
    assert bed.heartbeat(old, 1, instance_id="b") is ErrorCode.FENCED_INSTANCE_ID
    assert bed.synced(bed.sync(old, 1, instance_id="b")).code is ErrorCode.FENCED_INSTANCE_ID
    assert bed.joined(bed.join(old, instance_id="b")).code is ErrorCode.FENCED_INSTANCE_ID
    left = bed.left(bed.leave(LeavingMember(member_id=old, instance_id="b")))
    assert [each.code for each in left.members] == [ErrorCode.FENCED_INSTANCE_ID]


def test_instance_id_that_nobody_holds_is_unknown() -> None:
    bed = ClassicBed()
    member_id, _ = bed.stable(2)
    assert bed.heartbeat(member_id, 1, instance_id="z") is ErrorCode.UNKNOWN_MEMBER_ID


def test_waiting_join_of_the_old_id_is_fenced() -> None:
    bed = ClassicBed()
    old = bed.join(instance_id="a")
    new = bed.join(instance_id="a")
    assert bed.joined(old).code is ErrorCode.FENCED_INSTANCE_ID
    bed.advance(DELAY_MS)
    assert bed.joined(new).generation == 1
    assert len(bed.group.members) == 1


def test_waiting_sync_of_the_old_id_is_fenced_and_the_group_rebalances() -> None:
    bed = ClassicBed()
    bed.member("a")
    follower, _ = bed.member("b")
    bed.advance(DELAY_MS * 2)
    waiting = bed.sync(follower, 1)
    bed.join(instance_id="b")
    assert bed.synced(waiting).code is ErrorCode.FENCED_INSTANCE_ID
    assert bed.state == "PreparingRebalance"


def test_return_that_changes_the_protocol_makes_the_group_rebalance() -> None:
    bed = ClassicBed()
    first, token = bed.member("a", protocols=BOTH)
    second, _ = bed.member("b", protocols=BOTH)
    bed.advance(DELAY_MS * 2)
    assert bed.joined(token).protocol == "range"
    bed.sync(first, 1)
    bed.sync(second, 1)
    back = bed.join(instance_id="b", protocols=BOTH[1:])
    assert bed.unanswered() == [back]
    assert bed.state == "PreparingRebalance"
    bed.join(first, instance_id="a", protocols=BOTH)
    assert bed.joined(back).protocol == "roundrobin"


def test_return_completes_a_rebalance_that_waited_for_it() -> None:
    bed = ClassicBed()
    first, _ = bed.stable(instance_ids=["a", "b"])
    token = bed.join(first, instance_id="a")
    back = bed.join(instance_id="b")
    assert {bed.joined(each).generation for each in (token, back)} == {2}


def test_return_that_can_not_be_written_leaves_the_old_id_valid() -> None:
    bed = ClassicBed()
    _, old = bed.stable(instance_ids=["a", "b"])
    bed.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    token = bed.join(instance_id="b", protocols=(("range", b"other"),), session_ms=20_000)
    assert bed.joined(token) == Joined(code=ErrorCode.NOT_COORDINATOR)
    bed.log.refusal = None
    assert bed.heartbeat(old, 1, instance_id="b") is ErrorCode.NONE
    assert bed.group.members[old].protocols == RANGE
    bed.advance(SESSION_MS)
    assert old not in bed.group.members


def test_two_returns_at_once_leave_only_the_last_valid() -> None:
    bed = ClassicBed()
    bed.stable(instance_ids=["a", "b"])
    bed.log.lag()
    first, second = bed.join(instance_id="b"), bed.join(instance_id="b")
    bed.replicate()
    assert bed.joined(first).code is ErrorCode.FENCED_INSTANCE_ID
    assert bed.joined(second).code is ErrorCode.NONE
    assert bed.group.static_member_id("b") == bed.joined(second).member_id


def test_older_return_that_replicated_too_slowly_does_not_undo_the_later_one() -> None:
    bed = ClassicBed()
    bed.stable(instance_ids=["a", "b"])
    bed.log.lag()
    bed.join(instance_id="b")
    bed.advance(4_000)
    bed.join(instance_id="b")
    latest = bed.group.static_member_id("b")
    bed.advance(1_000)
    assert bed.group.static_member_id("b") == latest


def test_rebalance_that_begins_before_the_new_id_is_safe_takes_the_return_along() -> None:
    bed = ClassicBed()
    leader, _ = bed.stable(instance_ids=["a", "b"])
    bed.log.lag()
    back = bed.join(instance_id="b")
    again = bed.join(leader, instance_id="a")
    bed.replicate()
    assert {bed.joined(token).generation for token in (back, again)} == {2}


def test_return_waits_with_the_others_when_a_rebalance_began_before_its_id_was_safe() -> None:
    bed = ClassicBed()
    leader, _, third = bed.stable(instance_ids=["a", "b", "c"])
    bed.log.lag()
    back = bed.join(instance_id="b")
    again = bed.join(leader, instance_id="a")
    bed.replicate()
    assert bed.unanswered() == [back, again]
    last = bed.join(third, instance_id="c")
    assert {bed.joined(token).generation for token in (back, again, last)} == {2}


def test_returned_member_is_assigned_after_a_restart_too() -> None:
    bed = ClassicBed()
    _, old = bed.stable(instance_ids=["a", "b"])
    new = bed.joined(bed.join(instance_id="b")).member_id
    bed.crash()
    assert bed.heartbeat(old, 1, instance_id="b") is ErrorCode.FENCED_INSTANCE_ID
    assert bed.synced(bed.sync(new, 1, instance_id="b")).assignment == f"for {old}".encode()


def test_return_before_the_old_id_had_synced_is_waited_for_in_its_place() -> None:
    bed = ClassicBed()
    first, _ = bed.member("a")
    second, _ = bed.member("b")
    bed.advance(DELAY_MS * 2)
    bed.sync(first, 1, {second: b"two"})
    new = bed.joined(bed.join(instance_id="b")).member_id
    assert bed.group.pending_sync == {new}
    assert bed.synced(bed.sync(new, 1)).assignment == b"two"
    for _ in range(2 * REBALANCE_MS // 5_000):
        bed.heartbeat(first, 1)
        bed.heartbeat(new, 1)
        bed.advance(5_000)
    assert bed.state == "Stable"


def test_static_member_is_removed_by_its_instance_id() -> None:
    bed = ClassicBed()
    _, follower = bed.stable(instance_ids=["a", "b"])
    left = bed.left(bed.leave(LeavingMember(member_id="", instance_id="b")))
    assert [(each.member_id, each.instance_id, each.code) for each in left.members] == [("", "b", ErrorCode.NONE)]
    assert follower not in bed.group.members


def test_refused_reply_names_no_member() -> None:
    bed = ClassicBed()
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert bed.answers[bed.join()] == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
