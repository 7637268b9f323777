"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of a classic group: what they are answered, and what they cause."""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.messages import Joined, LeavingMember, Synced
from kafkad.core.groups.classic.protocol import MAX_ID_BYTES
from kafkad.core.groups.classic.requests import MAX_METADATA_BYTES
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.records import GroupMember, GroupMetadata
from tests.core.coordinator.memory_log import Refused
from tests.core.groups.classic_bed import DELAY_MS, GROUP, RANGE, REBALANCE_MS, SESSION_MS, ClassicBed

ROUND_ROBIN = (("roundrobin", b"rr"),)
BOTH = (*RANGE, *ROUND_ROBIN)


def test_new_member_has_to_come_again_with_the_id_that_it_is_given() -> None:
    bed = ClassicBed()
    answer = bed.joined(bed.join())
    assert answer.code is ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id == "client-1"
    assert bed.state == "Empty"


def test_client_before_version_4_joins_at_once() -> None:
    bed = ClassicBed()
    token = bed.join(version=3)
    assert token in bed.unanswered()
    bed.advance(DELAY_MS)
    assert bed.joined(token).member_id == "client-1"
    assert bed.joined(token).generation == 1


def test_new_static_member_joins_at_once_under_its_instance_id() -> None:
    bed = ClassicBed()
    token = bed.join(instance_id="a")
    bed.advance(DELAY_MS)
    assert bed.joined(token).member_id == "a-1"


@pytest.mark.parametrize("version", [0, 5])
@pytest.mark.parametrize("letter", ["a", "\u00e4"])
def test_a_member_id_fits_any_string_however_long_the_instance_id_is(version: int, letter: str) -> None:
    bed = ClassicBed()
    instance_id = letter * (MAX_ID_BYTES // len(letter.encode()))
    token = bed.join(instance_id=instance_id, version=version)
    bed.advance(DELAY_MS)
    member_id = bed.joined(token).member_id
    assert MAX_ID_BYTES - 2 <= len(member_id.encode()) <= MAX_ID_BYTES
    assert member_id.startswith(letter * 1_000)
    assert member_id.endswith("-1")


def test_log_lines_quote_the_beginnings_of_names() -> None:
    """679 joins with names of 32 KB wrote 44 MB of log."""
    long = "a" * MAX_ID_BYTES
    bed = ClassicBed()
    token = bed.join(group_id=long, instance_id=long, version=8, reason=long)
    bed.advance(DELAY_MS)
    leaving = LeavingMember(member_id=bed.joined(token).member_id, instance_id=long, reason=long)
    bed.leave(leaving, group_id=long)
    bed.advance(REBALANCE_MS)
    assert len(bed.lines) > 1
    assert [line for line in bed.lines if len(line) > 500] == []


def test_new_group_is_written_empty_at_its_first_join() -> None:
    bed = ClassicBed()
    bed.join()
    assert bed.written() == [
        GroupMetadata(
            group_id=GROUP,
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=bed.moment.wall_ms,
        )
    ]


def test_nobody_hears_of_a_new_group_that_could_not_be_written() -> None:
    bed = ClassicBed()
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    tokens = [bed.join(), bed.join(version=3), bed.join(instance_id="a")]
    assert [bed.answers[token] for token in tokens] == [
        Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE),
        Joined(code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
        Joined(code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]
    assert len(bed.shard.groups) == 0
    bed.advance(REBALANCE_MS * 10)


def test_new_group_whose_record_is_replicated_too_slowly_goes_on() -> None:
    bed = ClassicBed()
    bed.log.lag()
    token = bed.join(version=3)
    bed.advance(DELAY_MS)
    assert bed.unanswered() == [token]
    bed.advance(5_000)
    assert bed.answers[token] == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    bed.replicate()
    assert bed.joined(bed.join("client-1")).generation == 1


def test_unknown_id_is_refused_and_makes_no_group() -> None:
    bed = ClassicBed()
    answer = bed.joined(bed.join("stranger"))
    assert answer == Joined(code=ErrorCode.UNKNOWN_MEMBER_ID, member_id="stranger")
    assert len(bed.shard.groups) == 0


def test_unknown_id_is_refused_in_every_state() -> None:
    bed = ClassicBed()
    bed.join()
    codes = [bed.joined(bed.join("stranger")).code]
    bed.member()
    codes.append(bed.joined(bed.join("stranger")).code)
    bed.advance(SESSION_MS)
    assert bed.state == "CompletingRebalance"
    codes.append(bed.joined(bed.join("stranger")).code)
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID] * 3


@pytest.mark.parametrize("protocol_type, protocols", [("", RANGE), ("consumer", ())])
def test_first_member_needs_a_type_and_a_protocol(protocol_type: str, protocols: tuple[()]) -> None:
    bed = ClassicBed()
    token = bed.join(protocol_type=protocol_type, protocols=protocols)
    assert bed.joined(token).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("protocol_type, protocols", [("connect", RANGE), ("consumer", ROUND_ROBIN)])
def test_member_that_has_nothing_in_common_is_refused(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    bed = ClassicBed()
    bed.stable()
    token = bed.join(protocol_type=protocol_type, protocols=protocols)
    assert bed.joined(token) == Joined(code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def test_pending_id_can_not_become_a_static_member() -> None:
    bed = ClassicBed()
    member_id = bed.joined(bed.join()).member_id
    assert bed.joined(bed.join(member_id, instance_id="a")).code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_pending_id_that_does_not_come_back_is_forgotten_after_its_session() -> None:
    bed = ClassicBed()
    member_id = bed.joined(bed.join()).member_id
    bed.advance(SESSION_MS)
    assert bed.joined(bed.join(member_id)).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_rebalance_waits_for_pending_ids_until_their_session_ends() -> None:
    bed = ClassicBed()
    leader, other = bed.stable(2)
    bed.join()
    tokens = [bed.join(leader), bed.join(other)]
    assert bed.unanswered() == tokens
    bed.advance(SESSION_MS)
    assert {bed.joined(token).generation for token in tokens} == {2}


def test_follower_that_missed_the_answer_hears_it_again_without_a_rebalance() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    answer = bed.joined(bed.join(follower))
    assert (answer.generation, answer.leader, answer.members) == (1, leader, ())
    assert bed.state == "Stable"


def test_leader_that_joins_a_stable_group_again_makes_it_rebalance() -> None:
    bed = ClassicBed()
    leader, _ = bed.stable(2)
    bed.join(leader, reason="cached metadata has changed")
    assert bed.state == "PreparingRebalance"
    assert bed.lines[-1].endswith(f"member {leader} is the leader and rejoins: cached metadata has changed")


def test_member_with_other_metadata_makes_the_group_rebalance() -> None:
    bed = ClassicBed()
    _, follower = bed.stable(2)
    bed.join(follower, protocols=(("range", b"other"),))
    assert bed.state == "PreparingRebalance"


def test_leader_that_missed_the_answer_while_all_sync_is_told_of_all_again() -> None:
    bed = ClassicBed()
    member_id, token = bed.member()
    bed.advance(DELAY_MS)
    first = bed.joined(token)
    assert bed.joined(bed.join(member_id)) == first
    assert [each.member_id for each in first.members] == [member_id]


def test_change_of_metadata_while_all_sync_starts_over() -> None:
    bed = ClassicBed()
    (first, _), (second, _) = bed.member(), bed.member()
    bed.advance(DELAY_MS * 2)
    waiting = bed.sync(second, 1)
    bed.join(first, protocols=(("range", b"other"),))
    assert bed.synced(waiting).code is ErrorCode.REBALANCE_IN_PROGRESS
    assert bed.state == "PreparingRebalance"


def test_second_join_of_a_waiting_member_takes_the_place_of_the_first() -> None:
    bed = ClassicBed()
    member_id, first = bed.member()
    second = bed.join(member_id)
    assert bed.joined(first).code is ErrorCode.REBALANCE_IN_PROGRESS
    bed.advance(DELAY_MS)
    assert bed.joined(second).generation == 1


def test_protocol_with_most_votes_among_the_common_ones_is_taken() -> None:
    bed = ClassicBed()
    prefers_other = (*ROUND_ROBIN, *RANGE, ("sticky", b""))
    tokens = [bed.member(protocols=protocols)[1] for protocols in (prefers_other, BOTH, BOTH)]
    bed.advance(DELAY_MS * 2)
    assert {bed.joined(token).protocol for token in tokens} == {"range"}


def test_leader_gets_the_metadata_of_the_chosen_protocol_of_everybody() -> None:
    bed = ClassicBed()
    members = [bed.member(protocols=BOTH), bed.member(protocols=ROUND_ROBIN)]
    bed.advance(DELAY_MS * 2)
    leader, follower = (bed.joined(token) for _, token in members)
    assert {each.member_id: each.metadata for each in leader.members} == {id_: b"rr" for id_, _ in members}
    assert leader.leader == leader.member_id == follower.leader
    assert follower.members == ()


def test_protocol_that_is_named_twice_counts_once() -> None:
    bed = ClassicBed()
    _, token = bed.member(protocols=(*RANGE, *RANGE))
    bed.advance(DELAY_MS)
    assert bed.joined(token).protocol == "range"


def test_stable_group_of_full_size_takes_no_new_member() -> None:
    bed = ClassicBed(max_size=2)
    _, follower = bed.stable(2)
    assert bed.joined(bed.join()).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bed.joined(bed.join(follower)).code is ErrorCode.NONE
    assert bed.state == "Stable"


def test_group_takes_no_more_metadata_than_its_leader_can_be_sent_at_once() -> None:
    """Its leader is sent that of all members: hundreds of megabytes stopped the worker."""
    bed = ClassicBed()
    half = (("range", bytes(MAX_METADATA_BYTES // 2)),)
    (first, first_token), (second, second_token) = (bed.member(protocols=half) for _ in range(2))
    _, refused = bed.member(protocols=RANGE)
    assert bed.joined(refused).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    bed.advance(DELAY_MS * 2)
    assert {bed.joined(first_token).code, bed.joined(second_token).code} == {ErrorCode.NONE}
    again = [bed.join(member_id, protocols=half) for member_id in (first, second)]
    bed.advance(DELAY_MS * 2)
    assert {bed.joined(token).code for token in again} == {ErrorCode.NONE}, "what they said before is not counted twice"


def test_last_to_join_a_rebalance_of_too_many_is_turned_away() -> None:
    bed = ClassicBed(max_size=2)
    members = [bed.joined(bed.join()).member_id for _ in range(3)]
    tokens = [bed.join(member_id) for member_id in members]
    assert bed.joined(tokens[2]).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    bed.advance(DELAY_MS * 2)
    assert [bed.joined(token).generation for token in tokens[:2]] == [1, 1]


def test_member_that_waits_may_ask_again_in_a_full_group() -> None:
    bed = ClassicBed(max_size=1)
    member_id, _ = bed.member()
    again = bed.join(member_id)
    bed.advance(DELAY_MS)
    assert bed.joined(again).generation == 1


def test_known_member_that_comes_too_late_to_a_full_rebalance_is_removed() -> None:
    bed = ClassicBed()
    members = bed.stable(3)
    bed.config = GroupConfig(max_size=2)
    bed.crash()
    tokens = [bed.join(member_id) for member_id in members]
    assert bed.joined(tokens[2]).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert members[2] not in bed.group.members


def test_new_member_whose_join_waits_too_long_is_told_to_come_again() -> None:
    bed = ClassicBed()
    member_id, token = bed.member(rebalance_ms=1_000_000)
    leader = bed.member(rebalance_ms=1_000_000)
    bed.advance(DELAY_MS * 2)
    joined_late = bed.join(version=3, rebalance_ms=1_000_000, session_ms=1_000_000)
    for _ in range(40):
        bed.advance(SESSION_MS - 1_000)
        bed.heartbeat(member_id, 1)
        bed.heartbeat(leader[0], 1)
    assert bed.joined(token).generation == 1
    assert bed.joined(joined_late) == Joined(code=ErrorCode.UNKNOWN_MEMBER_ID)


def test_generation_after_the_last_begins_anew() -> None:
    bed = ClassicBed()
    leader, _ = bed.stable(2)
    bed.group.generation = 2**31 - 1
    token = bed.join(leader)
    bed.advance(REBALANCE_MS)
    assert bed.joined(token).generation == 0


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
