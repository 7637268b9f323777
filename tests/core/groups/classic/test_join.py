"""Which clients may join a classic group, under which member id, and which answers come at once."""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.join import MAX_METADATA_BYTES
from kafkad.core.groups.classic.messages import Joined, LeavingMember
from kafkad.core.groups.classic.protocol import MAX_ID_BYTES
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.records import GroupMetadata
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
