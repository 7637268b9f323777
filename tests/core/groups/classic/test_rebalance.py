"""When a classic group rebalances, how long it waits for which members, and which are removed."""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.state import ClassicState
from kafkad.core.groups.config import GroupConfig
from kafkad.core.groups.records import GroupMetadata
from tests.core.coordinator.memory_log import Refused
from tests.core.groups.classic_bed import DELAY_MS, GROUP, RANGE, REBALANCE_MS, SESSION_MS, ClassicBed

OTHER = (("range", b"other"),)


def test_first_rebalance_of_a_group_waits_for_its_delay() -> None:
    bed = ClassicBed()
    _, token = bed.member()
    bed.advance(DELAY_MS - 1)
    assert bed.unanswered() == [token]
    bed.advance(1)
    assert bed.joined(token).generation == 1


def test_without_delay_the_first_member_does_not_wait() -> None:
    bed = ClassicBed(initial_rebalance_delay_ms=0)
    _, token = bed.member()
    bed.advance(0)
    assert bed.joined(token).generation == 1


def test_members_that_come_during_the_delay_extend_it() -> None:
    bed = ClassicBed()
    tokens = [bed.member()[1]]
    bed.advance(DELAY_MS - 1)
    tokens.append(bed.member()[1])
    bed.advance(DELAY_MS)
    assert bed.unanswered() == tokens
    bed.advance(1)
    assert {bed.joined(token).generation for token in tokens} == {1}


def test_delay_ends_at_the_rebalance_timeout_whoever_comes() -> None:
    bed = ClassicBed()
    tokens = [bed.member(rebalance_ms=7_000)[1]]
    for _ in range(7):
        bed.advance(1_000 - 1)
        tokens.append(bed.member(rebalance_ms=7_000)[1])
        bed.advance(1)
    assert bed.unanswered() == []
    assert len(bed.group.members) == len(tokens)


def test_rebalance_is_over_when_the_last_member_has_joined() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    first = bed.join(leader)
    assert bed.unanswered() == [first]
    second = bed.join(follower)
    assert {bed.joined(token).generation for token in (first, second)} == {2}
    assert bed.state == "CompletingRebalance"


def test_new_member_makes_a_stable_group_rebalance() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    _, token = bed.member()
    assert bed.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    bed.join(leader)
    bed.join(follower)
    assert bed.joined(token).generation == 2
    assert len(bed.group.members) == 3


def test_member_that_does_not_rejoin_within_the_rebalance_timeout_is_out() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    token = bed.join(leader)
    for _ in range(REBALANCE_MS // 5_000):
        bed.heartbeat(follower, 1)
        bed.advance(5_000)
    assert bed.joined(token).generation == 2
    assert bed.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_longest_rebalance_timeout_counts() -> None:
    bed = ClassicBed()
    (leader, _), (follower, _) = bed.member(rebalance_ms=20_000), bed.member(rebalance_ms=50_000, session_ms=60_000)
    bed.advance(DELAY_MS * 2)
    token = bed.join(leader, rebalance_ms=20_000, protocols=OTHER)
    bed.advance(50_000 - 1)
    assert token in bed.unanswered()
    bed.advance(1)
    assert bed.joined(token).generation == 2
    assert follower not in bed.group.members


def test_somebody_who_joined_leads_when_the_leader_did_not() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    token = bed.join(follower, protocols=OTHER)
    bed.advance(REBALANCE_MS)
    answer = bed.joined(token)
    assert answer.leader == follower
    assert [each.member_id for each in answer.members] == [follower]
    assert leader not in bed.group.members


def test_static_member_that_does_not_rejoin_stays_until_its_session_ends() -> None:
    bed = ClassicBed()
    first, second = bed.stable(instance_ids=["a", "b"])
    token = bed.join(first, instance_id="a")
    for _ in range(REBALANCE_MS // 5_000):
        assert bed.heartbeat(second, 1, instance_id="b") is ErrorCode.REBALANCE_IN_PROGRESS
        bed.advance(5_000)
    assert bed.joined(token).generation == 2
    assert second in bed.group.members
    bed.advance(SESSION_MS * 2)
    assert second not in bed.group.members


def test_rebalance_that_no_static_member_joins_waits_on() -> None:
    bed = ClassicBed()
    first, second = bed.stable(instance_ids=["a", "b"])
    dynamic, token = bed.member()
    bed.leave(dynamic)
    assert bed.joined(token).code is ErrorCode.UNKNOWN_MEMBER_ID
    for _ in range(REBALANCE_MS * 2 // 5_000):
        bed.heartbeat(first, 1, instance_id="a")
        bed.heartbeat(second, 1, instance_id="b")
        bed.advance(5_000)
    assert bed.state == "PreparingRebalance"
    tokens = [bed.join(first, instance_id="a"), bed.join(second, instance_id="b")]
    assert {bed.joined(token).generation for token in tokens} == {2}


def test_member_whose_session_ends_makes_the_others_rebalance() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    bed.advance(SESSION_MS - 1)
    bed.heartbeat(leader, 1)
    bed.advance(1)
    assert bed.state == "PreparingRebalance"
    assert bed.lines[-1] == (
        f"group {GROUP}: preparing rebalance of 1 member(s) in state Stable with generation 1: "
        f"session of member {follower} expired"
    )
    assert bed.joined(bed.join(leader)).generation == 2


def test_last_missing_member_whose_session_ends_completes_the_rebalance() -> None:
    bed = ClassicBed()
    leader, _ = bed.stable(2)
    token = bed.join(leader)
    bed.advance(SESSION_MS)
    assert bed.joined(token).generation == 2


def test_waiting_member_needs_no_heartbeats() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    token = bed.join(leader)
    for _ in range(5):
        bed.advance(SESSION_MS - 1)
        bed.heartbeat(follower, 1)
    assert token in bed.unanswered()
    bed.join(follower)
    assert bed.joined(token).generation == 2


def test_group_whose_members_are_all_gone_is_empty_and_that_is_written() -> None:
    bed = ClassicBed()
    bed.stable(2)
    bed.advance(SESSION_MS + REBALANCE_MS)
    assert bed.state == "Empty"
    assert bed.written()[-1] == GroupMetadata(
        group_id=GROUP,
        protocol_type="consumer",
        generation=2,
        protocol=None,
        leader=None,
        current_state_timestamp=bed.group.state_since_ms or 0,
    )


def test_group_that_became_empty_is_used_again_with_the_next_generation() -> None:
    bed = ClassicBed()
    bed.stable(1)
    bed.advance(SESSION_MS)
    _, token = bed.member(protocol_type="connect")
    bed.advance(DELAY_MS)
    assert (bed.joined(token).generation, bed.joined(token).protocol_type) == (3, "connect")


def test_empty_group_that_could_not_be_written_is_empty_all_the_same() -> None:
    bed = ClassicBed()
    (only,) = bed.stable(1)
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert bed.answers[bed.leave(only)] == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert bed.state == "Empty"
    bed.log.refusal = None
    bed.advance(REBALANCE_MS)
    _, token = bed.member()
    bed.advance(DELAY_MS)
    assert bed.joined(token).generation == 3


def test_member_that_joins_and_does_not_sync_is_out() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    bed.join(leader)
    bed.join(follower)
    bed.sync(leader, 2)
    for _ in range(REBALANCE_MS // 5_000):
        bed.heartbeat(leader, 2)
        bed.heartbeat(follower, 2)
        bed.advance(5_000)
    assert list(bed.group.members) == [leader]
    assert bed.state == "PreparingRebalance"
    assert bed.lines[-1].endswith(f"no SyncGroup within the rebalance timeout from {follower}")


def test_nobody_is_out_for_syncing_late_once_all_have_synced() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    for _ in range(2 * REBALANCE_MS // 5_000):
        assert bed.heartbeat(leader, 1) is ErrorCode.NONE
        assert bed.heartbeat(follower, 1) is ErrorCode.NONE
        bed.advance(5_000)
    assert bed.state == "Stable"


def test_each_rebalance_is_told_once_with_its_cause() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    bed.lines.clear()
    bed.join(follower, protocols=OTHER, reason="topics changed")
    bed.join(leader)
    assert bed.lines == [
        f"group {GROUP}: preparing rebalance of 2 member(s) in state Stable with generation 1: "
        f"member {follower} rejoins with changed metadata: topics changed"
    ]


def test_end_of_a_session_is_caused_by_the_address_of_its_member() -> None:
    bed = ClassicBed()
    bed.stable(1)
    bed.hosts.clear()
    bed.advance(600_000)
    assert "empty in generation" in bed.lines[-1]
    assert set(bed.hosts) == {"127.0.0.1"}


def test_reason_of_a_client_can_not_forge_a_line() -> None:
    bed = ClassicBed()
    leader, _ = bed.stable(2)
    bed.join(leader, reason="x\nkafkad stopped")
    assert "\n" not in bed.lines[-1]


def test_group_larger_than_a_lowered_limit_rebalances_when_loaded() -> None:
    bed = ClassicBed()
    bed.stable(3)
    bed.config = GroupConfig(max_size=2)
    bed.crash()
    assert bed.state == "PreparingRebalance"
    assert "group.max.size=2" in bed.lines[-1]


@pytest.mark.parametrize(
    "state, target",
    [
        (ClassicState.EMPTY, ClassicState.STABLE),
        (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE),
        (ClassicState.DEAD, ClassicState.EMPTY),
    ],
)
def test_state_that_may_not_follow_is_our_fault(state: ClassicState, target: ClassicState) -> None:
    bed = ClassicBed()
    bed.stable(1)
    bed.group.state = state
    with pytest.raises(AssertionError, match=GROUP):
        bed.group.move_to(target, 0)


def test_any_protocol_type_is_coordinated() -> None:
    bed = ClassicBed()
    _, token = bed.member(protocol_type="connect", protocols=(("sessioned", b"worker"), *RANGE))
    bed.advance(DELAY_MS)
    assert (bed.joined(token).protocol_type, bed.joined(token).protocol) == ("connect", "sessioned")
