"""`kafkad reassign`, `kafkad elect-leaders` and `kafkad brokers`: what their tables say, and what is wrong usage."""

import json

import pytest
from click.testing import CliRunner

from kafkad.cli import main
from kafkad.cli.broker_options import CommandFailed
from kafkad.cli.commands.cluster.brokers import broker_lines, loads
from kafkad.cli.commands.cluster.drain import led_by_others, without
from kafkad.cli.commands.cluster.planned import compared
from kafkad.cli.commands.cluster.reassign import reassignment_lines
from kafkad.cli.commands.cluster.reassignment_execution import moves_to
from kafkad.cli.commands.cluster.reassignment_plan import as_document, from_document, proposed
from kafkad.client.broker_client import BrokerDescription, PartitionDescription, TopicDescription
from kafkad.client.reassignments import Reassignment
from kafkad.client.throttles import FOLLOWERS, LEADERS, Move, throttled_replicas


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")][:-1]


def test_reassignments_are_shown_with_who_comes_and_who_goes() -> None:
    found = [Reassignment("t", 0, (4, 1, 2), (4,), (2,)), Reassignment("t", 3, (1, 2), (), (2,))]
    assert [cells(line) for line in reassignment_lines(found)[1:]] == [
        ["t", "0", "4,1,2", "4", "2"],
        ["t", "3", "1,2", "-", "2"],
    ]


def test_what_is_throttled_are_the_copied_and_the_new_replicas() -> None:
    targets = dict.fromkeys([("t", 1), ("t", 0), ("t", 9)], (4, 2))
    moves = moves_to(targets, [topic((1, 2), (2, 4), (2, 3))])
    assert moves == [Move("t", 0, (1, 2), (4,))], "partition 1 has both already, and there is no partition 9"
    more = [*moves, Move("t", 10, (1,), (3, 4)), Move("u", 0, (1,), (2,))]
    assert throttled_replicas(more) == {
        "t": {LEADERS: "0:1,0:2,10:1", FOLLOWERS: "0:4,10:3,10:4"},
        "u": {LEADERS: "0:1", FOLLOWERS: "0:2"},
    }


def test_brokers_are_shown_with_what_they_lead_and_lack() -> None:
    rows = (
        PartitionDescription(partition=0, leader=1, replicas=(1, 2), isr=(1,), offline_replicas=(2,)),
        PartitionDescription(partition=1, leader=2, replicas=(2, 1), isr=(2, 1), offline_replicas=()),
    )
    topics = [TopicDescription(name="t", topic_id=None, is_internal=False, partitions=rows)]
    found = [BrokerDescription(1, "a", 9092, "r", True), BrokerDescription(2, "b", 9093, None, False)]
    assert [cells(line) for line in broker_lines(loads(found, topics))[1:]] == [
        ["1", "a:9092", "r", "yes", "1", "2", "0"],
        ["2", "b:9093", "-", "no", "1", "2", "1"],
    ]
    assert [cells(line) for line in broker_lines(loads(found[:1], topics))[1:]] == [
        ["1", "a:9092", "r", "yes", "1", "2", "0"],
        ["2", "unregistered", "-", "no", "1", "2", "1"],
    ], "replicas are assigned to it, and it is not registered"


def partition(at: int, *, leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription(partition=at, leader=leader, replicas=replicas, isr=isr, offline_replicas=())


def of_rows(*rows: PartitionDescription) -> TopicDescription:
    return TopicDescription(name="t", topic_id=None, is_internal=False, partitions=rows)


def topic(*replicas: tuple[int, ...]) -> TopicDescription:
    return of_rows(*(partition(at, leader=ids[0], replicas=ids, isr=ids) for at, ids in enumerate(replicas)))


def in_racks(*racks: str | None) -> list[BrokerDescription]:
    return [BrokerDescription(at, "h", 9092, rack, False) for at, rack in enumerate(racks, 1)]


def test_what_a_drained_broker_has_goes_to_those_with_the_fewest_partitions() -> None:
    found = without(1, in_racks(None, None, None, None), [topic((1, 2), (2, 1), (3, 2), (1, 3))], [])
    assert found == {("t", 0): (4, 2), ("t", 1): (2, 4), ("t", 3): (4, 3)}


def test_another_rack_comes_before_fewer_partitions() -> None:
    found = without(1, in_racks("a", "b", "b", "a"), [topic((1, 2), (4, 3), (4, 3))], [])
    assert found == {("t", 0): (4, 2)}


def test_where_every_other_broker_has_a_replica_a_partition_stays() -> None:
    assert without(1, in_racks(None, None), [topic((1, 2), (1,), (2,))], []) == {("t", 0): None, ("t", 1): (2,)}
    assert without(1, in_racks(None), [topic((1,))], []) == {("t", 0): None}


def test_replicas_that_go_already_are_not_moved() -> None:
    """1 goes from the first partition, 3 from the second: it may come back there."""
    under_way = [Reassignment("t", 0, (2, 1), (2,), (1,)), Reassignment("t", 1, (1, 2, 3), (2,), (3,))]
    assert without(1, in_racks(None, None, None), [topic((2, 1), (1, 2, 3))], under_way) == {("t", 1): (3, 2)}


def test_a_broker_that_is_to_lead_nothing_becomes_the_last_replica_behind_one_in_sync() -> None:
    rows = [
        partition(0, leader=1, replicas=(1, 2, 3), isr=(1, 3)),
        partition(1, leader=2, replicas=(1, 2, 3), isr=(1, 2, 3)),
        partition(2, leader=1, replicas=(2, 1, 3), isr=(1, 2, 3)),
        partition(3, leader=2, replicas=(2, 1), isr=(2, 1)),
    ]
    orders, reasons = led_by_others(1, [of_rows(*rows)], [])
    assert orders == {("t", 0): (3, 2, 1), ("t", 1): (2, 3, 1), ("t", 2): (2, 3, 1)}
    assert reasons == {}


def test_what_a_broker_has_to_lead_on_is_named_with_the_reason() -> None:
    rows = [
        partition(0, leader=1, replicas=(1,), isr=(1,)),
        partition(1, leader=1, replicas=(1, 2), isr=(1,)),
        partition(2, leader=1, replicas=(1, 2), isr=(1, 2)),
    ]
    orders, reasons = led_by_others(1, [of_rows(*rows)], [Reassignment("t", 2, (1, 2), (2,), ())])
    assert orders == {}
    assert reasons == {
        ("t", 0): "broker 1 has the only replica",
        ("t", 1): "no other replica is in sync",
        ("t", 2): "the partition is being reassigned: wait for the end of the reassignment",
    }


@pytest.mark.parametrize("target", ["", "1,", "a", "1 2", "-1"])
def test_replicas_that_are_no_broker_ids_are_wrong_usage(target: str) -> None:
    outcome = CliRunner().invoke(main, ["reassign", "start", "t", f"--to={target}"])
    assert outcome.exit_code == 2
    assert "expected broker ids" in outcome.stderr


def test_an_unclean_election_of_everything_is_refused() -> None:
    outcome = CliRunner().invoke(main, ["elect-leaders", "--unclean"])
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert "name the partitions" in outcome.stderr


def test_a_plan_has_each_partition_in_two_racks_and_leaders_evenly() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    brokers = in_racks("a", "a", "b", "b", "c")
    topics = [topic(*[(5, 1)] * 8)]
    for start in range(4):
        found = proposed(topics, brokers, [1, 2, 3, 4], with_racks=True, random_below=start.__mod__)
        assert list(found) == [("t", at) for at in range(8)]
        assert all({racks[each] for each in ids} == {"a", "b"} for ids in found.values())
        assert sorted(ids[0] for ids in found.values()) == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [([1, 7], "no broker 7"), ([1], "only 1 broker"), ([1, 2], "--disable-rack-aware")],
)
def test_a_plan_that_is_not_possible_says_why(wanted: list[int], says: str) -> None:
    with pytest.raises(CommandFailed, match=says):
        proposed([topic((1, 3))], in_racks("a", None, "b"), wanted, with_racks=True, random_below=lambda limit: 0)


def test_racks_do_not_count_when_one_says_so() -> None:
    found = proposed([topic((1, 3))], in_racks("a", None, "b"), [1, 2], with_racks=False, random_below=lambda limit: 0)
    assert found == {("t", 0): (1, 2)}


def test_a_plan_is_what_kafkas_tool_reads() -> None:
    assert as_document({("t", 1): (2, 3), ("t", 0): (1,)}) == {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["any"]},
            {"topic": "t", "partition": 1, "replicas": [2, 3], "log_dirs": ["any", "any"]},
        ],
    }


def test_a_plan_is_read_as_it_is_printed() -> None:
    plan = {("t", 0): (4, 2), ("t", 1): (2,)}
    assert from_document(json.dumps(as_document(plan))) == plan
    assert from_document(json.dumps({"current": as_document({("t", 0): (1,)}), "proposed": as_document(plan)})) == plan


ROW = '{"topic":"t","partition":0,"replicas":[1]%s}'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"\xff\xfe", "the plan can't be read"),
        ("no JSON", "can't be read"),
        ('{"partitions":[{"topic":"t","partition":"0","replicas":[1]}]}', "can't be read"),
        ('{"version":1}', "names no partition"),
        (f'{{"partitions":[{ROW % ""},{ROW % ""}]}}', "twice"),
        ('{"partitions":[%s]}' % (ROW % ',"log_dirs":["/a"]'), "log-dirs move"),
    ],
)
def test_a_plan_that_can_not_be_carried_out_says_why(text: str | bytes, says: str) -> None:
    with pytest.raises(CommandFailed, match=says):
        from_document(text)


def test_partitions_are_compared_with_a_plan() -> None:
    plan = {("t", 0): (1, 2), ("t", 1): (2, 1), ("t", 2): (3, 1), ("u", 0): (1,)}
    assert compared(plan, [topic((1, 2), (1, 2), (3, 1, 2))], {("t", 2)}) == {
        ("t", 0): None,
        ("t", 1): "the partition has replicas 1,2 instead of 2,1",
        ("t", 2): "the partition is being reassigned, with replicas 3,1,2",
        ("u", 0): "the partition does not exist",
    }
