"""When members get their assignment, and what happens when it can't be written."""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.messages import Synced
from kafkad.core.groups.records import GroupMember, GroupMetadata
from tests.core.coordinator.memory_log import Refused
from tests.core.groups.classic_bed import DELAY_MS, GROUP, RANGE, REBALANCE_MS, SESSION_MS, ClassicBed


def completing() -> tuple[ClassicBed, str, str]:
    """Two members in generation 1 that have not synced; the leader comes first."""
    bed = ClassicBed()
    (leader, _), (follower, _) = bed.member(), bed.member()
    bed.advance(DELAY_MS * 2)
    return bed, leader, follower


def test_members_wait_for_the_leader() -> None:
    bed, leader, follower = completing()
    waiting = bed.sync(follower, 1)
    assert bed.unanswered() == [waiting]
    own = bed.sync(leader, 1, {leader: b"one", follower: b"two"})
    assert bed.synced(waiting) == Synced(protocol_type="consumer", protocol="range", assignment=b"two")
    assert bed.synced(own).assignment == b"one"
    assert bed.state == "Stable"


def test_assignment_is_written_with_the_generation() -> None:
    bed, leader, follower = completing()
    bed.sync(leader, 1, {leader: b"one", follower: b"two"})
    assert bed.written()[-1] == GroupMetadata(
        group_id=GROUP,
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader=leader,
        current_state_timestamp=bed.moment.wall_ms,
        members=tuple(
            GroupMember(
                member_id=member_id,
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout=REBALANCE_MS,
                session_timeout=SESSION_MS,
                subscription=RANGE[0][1],
                assignment=assignment,
            )
            for member_id, assignment in ((leader, b"one"), (follower, b"two"))
        ),
    )


def test_nobody_hears_of_an_assignment_before_it_is_safe() -> None:
    bed, leader, follower = completing()
    bed.log.lag()
    waiting = bed.sync(follower, 1)
    own = bed.sync(leader, 1, {follower: b"two"})
    assert bed.unanswered() == [waiting, own]
    assert bed.state == "CompletingRebalance"
    bed.replicate()
    assert bed.synced(waiting).assignment == b"two"
    assert bed.state == "Stable"


def test_members_rejoin_when_the_assignment_can_not_be_written() -> None:
    bed, leader, follower = completing()
    waiting = bed.sync(follower, 1)
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    own = bed.sync(leader, 1, {follower: b"two"})
    codes = {bed.synced(token).code for token in (waiting, own)}
    assert codes == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert bed.state == "PreparingRebalance"
    bed.log.refusal = None
    tokens = [bed.join(leader), bed.join(follower)]
    assert {bed.joined(token).generation for token in tokens} == {2}


def test_assignment_that_replicates_too_slowly_is_not_handed_out() -> None:
    bed, leader, follower = completing()
    bed.log.lag()
    waiting = bed.sync(follower, 1)
    bed.sync(leader, 1, {follower: b"two"})
    bed.advance(10_000)
    assert bed.answers[waiting] == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert bed.state == "PreparingRebalance"


def test_assignment_of_a_group_that_began_anew_meanwhile_is_dropped() -> None:
    bed, leader, follower = completing()
    bed.log.lag()
    waiting = bed.sync(follower, 1)
    bed.sync(leader, 1, {follower: b"two"})
    bed.join(follower, protocols=(("range", b"other"),))
    bed.replicate()
    assert bed.synced(waiting).code is ErrorCode.REBALANCE_IN_PROGRESS
    assert bed.state == "PreparingRebalance"


def test_assignment_of_an_older_generation_is_not_handed_out_in_the_next() -> None:
    bed, leader, follower = completing()
    bed.log.lag()
    bed.sync(leader, 1, {leader: b"old", follower: b"old"})
    bed.join(follower, protocols=(("range", b"other"),))
    bed.join(leader)
    assert (bed.state, bed.group.generation) == ("CompletingRebalance", 2)
    waiting = bed.sync(follower, 2)
    bed.replicate()
    assert bed.unanswered() == [waiting]
    bed.sync(leader, 2, {follower: b"new"})
    bed.replicate()
    assert bed.synced(waiting).assignment == b"new"


def test_assignment_of_the_last_generation_is_forgotten_when_the_next_fails() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    bed.join(leader)
    bed.join(follower)
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    bed.sync(leader, 2, {leader: b"new"})
    assert {member.assignment for member in bed.group.members.values()} == {b""}


def test_member_that_is_not_assigned_gets_an_empty_assignment() -> None:
    bed, leader, follower = completing()
    bed.sync(leader, 1, {leader: b"one", "stranger": b"three"})
    assert bed.synced(bed.sync(follower, 1)).assignment == b""


def test_member_may_ask_for_its_assignment_again() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    assert bed.synced(bed.sync(follower, 1)).assignment == f"for {follower}".encode()
    assert bed.synced(bed.sync(leader, 1, {follower: b"other"})).assignment == f"for {leader}".encode()


def test_second_sync_of_a_waiting_member_takes_the_place_of_the_first() -> None:
    bed, leader, follower = completing()
    first, second = bed.sync(follower, 1), bed.sync(follower, 1)
    assert bed.synced(first).code is ErrorCode.REBALANCE_IN_PROGRESS
    bed.sync(leader, 1, {follower: b"two"})
    assert bed.synced(second).assignment == b"two"


def test_sync_during_a_rebalance_is_told_to_join() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    bed.join(leader)
    assert bed.synced(bed.sync(follower, 1)).code is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_sync_of_another_generation_is_refused(generation: int) -> None:
    bed, leader, _ = completing()
    assert bed.synced(bed.sync(leader, generation)).code is ErrorCode.ILLEGAL_GENERATION


def test_sync_of_a_stranger_is_refused() -> None:
    bed, _, _ = completing()
    assert bed.synced(bed.sync("stranger", 1)).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_sync_with_a_group_that_is_not_there_or_empty_is_refused() -> None:
    bed = ClassicBed()
    assert bed.synced(bed.sync("anybody", 1)).code is ErrorCode.UNKNOWN_MEMBER_ID
    bed.join()
    assert bed.synced(bed.sync("anybody", 0)).code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("named", [{"protocol_type": "connect"}, {"protocol": "sticky"}])
def test_sync_that_names_another_protocol_is_refused(named: dict[str, str]) -> None:
    bed, leader, _ = completing()
    assert bed.synced(bed.sync(leader, 1, **named)).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]


def test_sync_that_names_the_protocol_of_the_group_is_taken() -> None:
    bed, leader, _ = completing()
    token = bed.sync(leader, 1, protocol_type="consumer", protocol="range")
    assert bed.synced(token).code is ErrorCode.NONE


def test_session_begins_when_the_assignment_is_handed_out() -> None:
    bed, leader, follower = completing()
    waiting = bed.sync(follower, 1)
    for _ in range(3):
        bed.advance(SESSION_MS - 1)
        bed.heartbeat(leader, 1)
    bed.sync(leader, 1, {follower: b"two"})
    assert bed.synced(waiting).assignment == b"two"
    bed.advance(SESSION_MS - 1)
    assert follower in bed.group.members
    bed.advance(1)
    assert follower not in bed.group.members
