"""The same members do the same on kafkad and on Apache Kafka: both answer the same and write the same, in every field.

Requests are raw, in every version, right and wrong; both brokers are made impatient, so that what runs out runs out
soon.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bench.brokers.apache import ApacheKafka
from bench.brokers.broker import RunningBroker
from bench.brokers.processes import eventually
from kafkad.core.groups.records import GroupMetadata, GroupMetadataRemoved
from kafkad.wire.api_table import DELETE_GROUPS, DESCRIBE_GROUPS, HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, LIST_GROUPS
from tests.compat.classic_log import classic_records
from tests.compat.conftest import SUBJECT
from tests.compat.group_sides import SESSION, Scenario, Side, comparable
from tests.handlers.kio_calls import versions_of

SYNC_VERSIONS = range(6)
IMPATIENT = {
    "group.initial.rebalance.delay.ms": "600",
    "group.min.session.timeout.ms": "1000",
    "group.max.size": "3",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningBroker, RunningBroker]]:
    with (
        SUBJECT(tmp_path_factory.mktemp("ours"), IMPATIENT) as ours,
        ApacheKafka(tmp_path_factory.mktemp("theirs"), IMPATIENT) as theirs,
    ):
        for broker in (ours, theirs):
            _make_offsets_topic(broker)
        yield ours, theirs


def _make_offsets_topic(broker: RunningBroker) -> None:
    """Groups can be coordinated once the topic is there and loaded."""
    with Side(broker, "warm up") as side:
        member = side.member("first")

        def is_coordinated() -> bool:
            member.ask("find_coordinator", 0, key="warm up")
            (group,) = member.describe(5).groups
            return int(group.error_code) == 0

        eventually(is_coordinated, what=f"{broker.name} coordinates groups")


def versions(side: Side, join: int, sync: int, heartbeat: int, leave: int) -> None:
    """One member from its join to its leave."""
    member = side.member("only")
    if int(member.join(join).error_code) == 79:
        member.join(join)
    member.heartbeat(heartbeat)
    member.sync(sync, member)
    member.heartbeat(heartbeat)
    for version in versions_of(DESCRIBE_GROUPS):
        member.describe(version)
    for version in versions_of(LIST_GROUPS):
        member.list(version)
    member.leave(leave)
    member.heartbeat(heartbeat)
    member.describe()
    member.list(5)
    member.delete()
    member.describe()


def unknown(side: Side) -> None:
    """Nobody knows this group or its member."""
    member = side.member("stranger")
    member.member_id = "stranger"
    for version in versions_of(JOIN_GROUP):
        member.join(version)
    for version in SYNC_VERSIONS:
        member.sync(version, member)
    for version in versions_of(HEARTBEAT):
        member.heartbeat(version)
    for version in versions_of(LEAVE_GROUP):
        member.leave(version)
    for version in versions_of(DESCRIBE_GROUPS):
        member.describe(version)
    for version in versions_of(DELETE_GROUPS):
        member.delete(version)
    member.leave(5, ("stranger", None), ("", "static"), ("", None))


def nameless(side: Side) -> None:
    """A group needs an id for members, and none to be asked after."""
    member = side.member("only")
    member.join(9, group_id="")
    member.sync(5, group_id="")
    member.heartbeat(4, group_id="")
    member.leave(5, group_id="")
    member.leave(1, group_id="")
    member.describe(6, "")
    member.describe(5, "")
    member.delete(2, "")


def refused_joins(side: Side) -> None:
    """Timeouts out of range, no protocol, no type; then what does not fit a group that is there."""
    member = side.member("only")
    member.join(9, session_timeout=SESSION / 10)
    member.join(9, session_timeout=SESSION * 10_000)
    member.join(9, protocols=())
    # Apache Kafka shows a new group only when its record is safe, but answers the join before.
    side.let_arrive()
    member.describe()
    member.join(9, protocol_type="")
    member.join(3, protocol_type="")
    first, _ = side.pair()
    member.join(9, protocol_type="other")
    member.join(9, protocols=(("sticky", b""),))
    member.join(5, group_instance_id="a", protocols=(("sticky", b""),))
    first.join(9, protocols=(("sticky", b""),))
    first.heartbeat()


def refused_syncs(side: Side) -> None:
    first, second = side.pair()
    first.sync(5, protocol_type=None)
    first.sync(5, protocol_name=None)
    first.sync(5, protocol_type="other")
    first.sync(5, protocol_name="sticky")
    first.sync(4)
    first.sync(5, generation_id=0)
    first.sync(5, generation_id=2)
    first.sync(5, member_id="stranger")
    first.sync(5, group_instance_id="a")
    second.sync(5)
    first.sync(5, second)


def refused_heartbeats(side: Side) -> None:
    first, _ = side.pair()
    for generation in (-1, 0, 2):
        first.heartbeat(4, generation_id=generation)
    first.heartbeat(4, member_id="stranger")
    first.heartbeat(4, member_id="")
    first.heartbeat(4, group_instance_id="a")


def rebalance(side: Side) -> None:
    """A third comes, two rejoin, the leader assigns; then one leaves."""
    first, second = side.pair()
    third = side.member("third")
    third.join()
    third.send_join()
    first.beat_until(27)
    second.heartbeat()
    second.sync()
    side.member("fourth").describe()
    first.send_join()
    second.send_join()
    for each in (first, second, third):
        each.hear_join()
    second.send_sync()
    third.send_sync()
    first.heartbeat()
    first.sync(5, first, third)
    second.hear()
    third.hear()
    side.member("fourth").join()
    side.member("fifth").join(3)
    third.leave()
    first.heartbeat()
    second.leave(5, (second.member_id, None), (second.member_id, None), ("stranger", None))
    first.heartbeat()
    first.join()


def rejoin_without_change(side: Side) -> None:
    """Followers are told again, the leader makes a rebalance, and so does other metadata."""
    first, second = side.pair()
    second.join()
    second.heartbeat()
    second.send_join(9, protocols=(("range", b"other"),))
    first.beat_until(27)
    first.join()
    second.hear_join()
    first.join()
    second.join(9, protocols=(("range", b"other"),))
    first.sync(5, second)
    second.sync()
    first.send_join()
    second.beat_until(27)
    second.join(9, protocols=(("range", b"other"),))
    first.hear_join()


def protocol_votes(side: Side) -> None:
    members = [side.member(name) for name in ("first", "second", "third")]
    wishes = (("b", "a", "c"), ("a", "b"), ("a", "b"))
    for member, names in zip(members, wishes, strict=True):
        protocols = tuple((name, name.encode()) for name in names)
        member.join(9, protocols=protocols)
        member.send_join(9, protocols=protocols)
        side.let_arrive()
    for member in members:
        member.hear_join()


def static_members(side: Side) -> None:
    """Returns with and without the leader's duties, and fenced old ids."""
    first, second = side.member("first"), side.member("second")
    first.send_join(9, group_instance_id="a")
    side.let_arrive()
    second.send_join(9, group_instance_id="b")
    first.hear_join()
    second.hear_join()
    second.send_sync(5, group_instance_id="b")
    first.sync(5, first, second, group_instance_id="a")
    second.hear()
    for version in (9, 8, 5):
        for instance_id in ("b", "a"):
            again = side.member(f"again {instance_id} {version}")
            again.join(version, group_instance_id=instance_id)
            again.sync(5, group_instance_id=instance_id)
            again.heartbeat(4, group_instance_id=instance_id)
    first.heartbeat(4, group_instance_id="a")
    first.heartbeat()
    first.join(9, group_instance_id="a")
    first.sync(5, group_instance_id="a")
    first.leave(5, (first.member_id, "a"), ("", "a"), ("", "z"))
    first.describe()


def static_with_pending_id(side: Side) -> None:
    member = side.member("only")
    member.join()
    member.join(9, group_instance_id="a")


def static_in_each_state(side: Side) -> None:
    """A second one with the instance id comes while the first waits for its join, and for its sync."""
    first, other = side.member("first"), side.member("other")
    other.send_join(9, group_instance_id="o")
    side.let_arrive()
    first.send_join(9, group_instance_id="a")
    side.let_arrive()
    second = side.member("second")
    second.send_join(9, group_instance_id="a")
    first.hear_join()
    other.hear_join()
    second.hear_join()
    second.send_sync(5)
    side.let_arrive()
    third = side.member("third")
    third.send_join(9, group_instance_id="a")
    second.hear()
    other.heartbeat()
    other.send_join(9, group_instance_id="o")
    third.hear_join()
    other.hear_join()


def expired_session(side: Side) -> None:
    first, second = side.pair()
    first.beat_until(27)
    second.heartbeat()
    first.join()
    first.sync(5, first)
    first.describe()


def late_join(side: Side) -> None:
    """One lives on and does not rejoin within the rebalance timeout."""
    first, second = side.pair()
    first.send_join()
    second.beat_until(25)
    first.hear_join()
    first.describe()


def late_sync(side: Side) -> None:
    """Both have joined, both live on, one asks for no assignment: it is out after the rebalance timeout."""
    first, second = side.pair()
    first.send_join()
    second.beat_until(27)
    second.join()
    first.hear_join()
    first.sync(5, first, second)
    first.beat_until(27, beside=second)
    second.heartbeat()
    first.join()


def leave_while_waiting(side: Side) -> None:
    """Whoever waits for a join is told when it is removed through another connection."""
    first, second = side.pair()
    tool = side.member("tool")
    first.send_join()
    second.beat_until(27)
    tool.leave(5, (first.member_id, None))
    first.hear_join()
    second.join()


def delete_and_describe_many(side: Side) -> None:
    first, _ = side.pair()
    first.delete()
    first.delete(1, side.group, "no such group", side.group)
    first.describe(6, side.group, "no such group", side.group)
    for states in (("stable",), (" STABLE ", "Empty"), ("Empty",), ("nonsense",)):
        first.list(5, states)
        first.list(4, states)
    for types in (("classic",), ("CLASSIC", "consumer"), ("consumer",), ("nonsense",)):
        first.list(5, (), types)
    first.list(5, ("Stable",), ("Classic",))


SCENARIOS: list[Scenario] = [
    unknown,
    nameless,
    refused_joins,
    refused_syncs,
    refused_heartbeats,
    rebalance,
    rejoin_without_change,
    protocol_votes,
    static_members,
    static_with_pending_id,
    static_in_each_state,
    expired_session,
    late_join,
    late_sync,
    leave_while_waiting,
    delete_and_describe_many,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_members_hear_the_same_from_both(brokers: tuple[RunningBroker, RunningBroker], scenario: Scenario) -> None:
    agree(brokers, scenario.__name__, scenario)


@pytest.mark.parametrize("at", range(10))
def test_every_version_is_answered_the_same(brokers: tuple[RunningBroker, RunningBroker], at: int) -> None:
    agree(brokers, f"versions {at}", lambda side: versions(side, at, min(at, 5), min(at, 4), min(at, 5)))


def agree(brokers: tuple[RunningBroker, RunningBroker], group: str, scenario: Scenario) -> None:
    transcripts, logs = [], []
    for broker in brokers:
        with Side(broker, group) as side:
            scenario(side)
            transcripts.append(side.transcript)
            side.let_arrive()
            logs.append([_comparable(record) for record in classic_records(broker.log_dir, group)])
    ours, theirs = transcripts
    for mine, its in zip(ours, theirs, strict=True):
        assert mine == its
    assert logs[0] == logs[1]


def _comparable(record: GroupMetadata | GroupMetadataRemoved) -> object:
    """Without the time at which it was written."""
    if isinstance(record, GroupMetadata):
        assert record.current_state_timestamp > 0
        record = replace(record, current_state_timestamp=0)
    return comparable(record)
