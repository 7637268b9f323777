"""A group shard as a whole: after a restart, when it is unloaded, and groups together with their offsets."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from kafkad.core.coordinator.runtime import Runtime
from kafkad.core.coordinator.shard import Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.classic.member import ClassicMember
from kafkad.core.groups.group import GroupType
from kafkad.core.groups.listing import describe_classic
from kafkad.core.groups.offsets.messages import OffsetCommit, PartitionCommit, TopicCommit
from kafkad.core.groups.records import ConsumerGroupMetadata, GroupMetadataRemoved, OffsetRemoved
from kafkad.core.groups.shard import GroupShard
from kafkad.wire.records import group_records
from tests.attributes import attributes_of
from tests.core.groups.classic_bed import DELAY_MS, GROUP, RANGE, SESSION_MS, ClassicBed

DAY_MS = 24 * 3_600_000


def commit(
    bed: ClassicBed, member_id: str = "", generation: int = -1, *, topic: str = "payments", group: str = GROUP
) -> ErrorCode:
    request = OffsetCommit(
        group_id=group,
        topics=[TopicCommit(topic, [PartitionCommit(0, 42)])],
        member_id=member_id,
        generation=generation,
    )
    token = bed.ask(lambda asked: bed.shard.offsets.commit(request, asked, bed.moment), version=8)
    _, _, ((_, code),) = bed.answers[token].topics[0]
    return code  # type: ignore[no-any-return]


def delete(bed: ClassicBed, *group_ids: str) -> list[tuple[str, ErrorCode]]:
    token = bed.ask(lambda asked: bed.shard.delete_groups(group_ids, asked.token))
    results: list[tuple[str, ErrorCode]] = bed.answers[token]
    return results


def snapshot(bed: ClassicBed) -> object:
    group = bed.group
    return (
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader,
        group.subscription,
        [
            [getattr(each, name) for name in attributes_of(ClassicMember) if not name.endswith("token")]
            for each in group.members.values()
        ],
    )


def test_a_shard_with_many_groups_ends_its_loading_in_steps() -> None:
    bed = ClassicBed()
    for number in range(1_000):
        bed.join(group_id=f"g{number}", version=3)
    bed.advance(DELAY_MS)
    bed.crash()
    loaded = Runtime(bed._make_shard(), bed.log, group_records, bed.wheel, bed)
    timers = []
    while not loaded.load_step(bed.moment):
        timers.append(len(loaded._timers))
    assert max(after - before for before, after in pairwise([*timers, len(loaded._timers)])) <= 200
    assert isinstance(loaded.shard, GroupShard) and len(loaded.shard.groups) == 1_000


def test_group_is_the_same_after_a_restart() -> None:
    bed = ClassicBed()
    bed.stable(instance_ids=["a", None, None])
    before = snapshot(bed)
    bed.crash()
    assert snapshot(bed) == before


def test_members_get_a_whole_session_after_a_restart() -> None:
    bed = ClassicBed()
    first, second = bed.stable(2)
    bed.advance(SESSION_MS - 1)
    bed.crash()
    bed.advance(SESSION_MS - 1)
    assert bed.heartbeat(first, 1) is ErrorCode.NONE
    bed.advance(1)
    assert second not in bed.group.members


def test_member_that_had_not_synced_before_a_restart_is_no_member() -> None:
    bed = ClassicBed()
    leader, _ = bed.stable(2)
    newcomer, _ = bed.member()
    bed.crash()
    assert bed.joined(bed.join(newcomer)).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert bed.heartbeat(leader, 1) is ErrorCode.NONE


def test_group_that_is_empty_stays_so_over_a_restart() -> None:
    bed = ClassicBed()
    (only,) = bed.stable(1)
    bed.leave(only)
    bed.crash()
    assert (bed.state, bed.group.generation) == ("Empty", 2)


def test_tombstone_of_a_group_that_is_not_there_means_nothing() -> None:
    bed = ClassicBed()
    bed.perform(Outcome(records=[GroupMetadataRemoved(group_id="never there")]))
    bed.crash()
    assert len(bed.shard.groups) == 0


def test_group_of_kip_848_is_not_mistaken_for_a_classic_one() -> None:
    bed = ClassicBed()
    bed.perform(Outcome(records=[ConsumerGroupMetadata(group_id="modern", epoch=3)]))
    bed.crash()
    assert bed.shard.groups.get("modern").type is GroupType.CONSUMER
    assert describe_classic(bed.shard.groups, "modern").code is ErrorCode.GROUP_ID_NOT_FOUND


def test_everybody_who_waits_hears_when_the_shard_is_given_up() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    join = bed.join(leader)
    bed.resign()
    assert bed.unanswered() == []
    assert bed.joined(join).code is ErrorCode.NOT_COORDINATOR
    bed.start()
    bed.join(leader)
    bed.join(follower)
    sync = bed.sync(follower, 2)
    bed.resign()
    assert bed.synced(sync).code is ErrorCode.NOT_COORDINATOR


def test_shard_that_is_given_up_while_a_record_is_not_safe_answers_everybody_once() -> None:
    bed = ClassicBed()
    leader, _ = bed.stable(instance_ids=["a", "b"])
    bed.log.lag()
    bed.join(instance_id="b")
    bed.join(leader, instance_id="a")
    bed.join(group_id="new group")
    bed.resign()
    assert bed.unanswered() == []


def test_commit_of_a_member_is_a_heartbeat() -> None:
    bed = ClassicBed()
    (only,) = bed.stable(1)
    for _ in range(3):
        bed.advance(SESSION_MS - 1)
        assert commit(bed, only, 1) is ErrorCode.NONE
    assert bed.state == "Stable"


def test_commit_is_for_members_of_the_generation_only() -> None:
    bed = ClassicBed()
    only, token = bed.member()
    assert commit(bed) is ErrorCode.UNKNOWN_MEMBER_ID
    bed.advance(DELAY_MS)
    assert bed.joined(token).generation == 1
    assert commit(bed, only, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    bed.sync(only, 1)
    assert commit(bed, only, 0) is ErrorCode.ILLEGAL_GENERATION
    assert commit(bed, "stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(bed) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(bed, only, 1) is ErrorCode.NONE


def test_member_may_commit_while_the_others_rejoin() -> None:
    bed = ClassicBed()
    leader, follower = bed.stable(2)
    bed.join(leader)
    assert commit(bed, follower, 1) is ErrorCode.NONE


def test_group_with_offsets_only_may_be_joined() -> None:
    bed = ClassicBed()
    assert commit(bed) is ErrorCode.NONE
    bed.crash()
    assert bed.state == "Empty"
    _, token = bed.member()
    bed.advance(DELAY_MS)
    assert bed.joined(token).generation == 1


def test_deleted_group_is_gone_with_its_offsets() -> None:
    bed = ClassicBed()
    commit(bed)
    assert delete(bed, GROUP, "unknown", GROUP) == [
        (GROUP, ErrorCode.NONE),
        ("unknown", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert bed.written()[-2:] == [OffsetRemoved(GROUP, "payments", 0), GroupMetadataRemoved(group_id=GROUP)]
    assert (len(bed.shard.groups), bed.shard.offsets.count) == (0, 0)


def test_deleted_group_does_not_come_back_with_a_restart() -> None:
    bed = ClassicBed()
    (only,) = bed.stable(1)
    bed.leave(only)
    assert delete(bed, GROUP) == [(GROUP, ErrorCode.NONE)]
    bed.crash()
    assert len(bed.shard.groups) == 0


def test_line_about_deleted_groups_names_the_first_few() -> None:
    bed = ClassicBed()
    groups = [f"g{number}" for number in range(7)]
    for group in groups:
        assert commit(bed, group=group) is ErrorCode.NONE
    delete(bed, *groups)
    assert bed.lines[-1] == "deleted 7 group(s) on request: g0, g1, g2, g3, g4 and 2 more"


def test_group_with_members_is_not_deleted() -> None:
    bed = ClassicBed()
    bed.stable(1)
    assert delete(bed, GROUP) == [(GROUP, ErrorCode.NON_EMPTY_GROUP)]


def test_offsets_of_an_empty_group_expire_when_it_was_empty_for_long_and_then_the_group_goes() -> None:
    bed = ClassicBed(offsets_retention_ms=DAY_MS)
    (only,) = bed.stable(1)
    commit(bed, only, 1)
    bed.advance(DAY_MS)
    assert (bed.state, bed.shard.offsets.count) == ("Empty", 1)
    bed.advance(DAY_MS)
    assert len(bed.shard.groups) == 0
    assert isinstance(bed.written()[-1], GroupMetadataRemoved)


def test_offsets_of_topics_that_members_want_do_not_expire() -> None:
    bed = ClassicBed(offsets_retention_ms=DAY_MS)
    (only,) = bed.stable(1)
    commit(bed, only, 1, topic="orders")
    commit(bed, only, 1, topic="payments")
    for _ in range(DAY_MS * 2 // (SESSION_MS - 1)):
        bed.advance(SESSION_MS - 1)
        bed.heartbeat(only, 1)
    assert bed.shard.offsets.count == 1


def test_restored_group_wants_what_its_members_said() -> None:
    bed = ClassicBed()
    bed.stable(1)
    bed.crash()
    assert bed.group.is_subscribed("orders")
    assert not bed.group.is_subscribed("payments")


def test_consumers_that_can_not_be_understood_may_want_anything() -> None:
    bed = ClassicBed()
    bed.member(protocols=(("range", b"\0"),))
    bed.advance(DELAY_MS)
    assert bed.group.is_subscribed("anything")
    assert bed.group.expiration() is None


def test_members_that_are_no_consumers_want_no_topics() -> None:
    bed = ClassicBed()
    bed.member(protocol_type="connect", protocols=RANGE)
    bed.advance(DELAY_MS)
    assert not bed.group.is_subscribed("orders")


@pytest.mark.parametrize("steps", range(1, 8))
def test_reload_at_every_step_of_a_rebalance_leads_back_to_a_stable_group(steps: int) -> None:
    bed = ClassicBed()
    first, second = bed.stable(2)
    script: list[Callable[[], int]] = [
        lambda: bed.join(first),
        lambda: bed.join(second),
        lambda: bed.sync(second, 2),
        lambda: bed.sync(first, 2, {second: b"x"}),
        lambda: bed.leave(first),
        lambda: bed.join(second),
        lambda: bed.sync(second, 3, {second: b"y"}),
    ]
    for step in script[:steps]:
        step()
    bed.crash()
    assert bed.state == "Stable"
