"""`kafkad log-dirs`: what its tables say, and what is to be moved."""

from typing import cast

import pytest

from kafkad.cli.broker_options import CommandFailed, named_partitions
from kafkad.cli.commands.log_dirs import broker_of, directory_lines, follow, partition_lines, percent_of
from kafkad.client.broker_client import BrokerClient, PartitionDescription, TopicDescription
from kafkad.client.log_dirs import UNKNOWN, LogDirDescription, Replica
from kafkad.client.replica_moves import ReplicaMove, find_moves

ROWS = [
    LogDirDescription(1, "/a", None, 1000, 400, (Replica("t", 0, 10, 0, False), Replica("u", 2, 30, 7, True))),
    LogDirDescription(1, "/b", "KAFKA_STORAGE_ERROR", UNKNOWN, UNKNOWN, ()),
]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")][:-1]


def test_directories_are_shown_with_what_is_in_them_and_their_room() -> None:
    assert [cells(line) for line in directory_lines(ROWS)[1:]] == [
        ["1", "/a", "2", "40", "400", "1000", "online"],
        ["1", "/b", "0", "0", "-", "-", "KAFKA_STORAGE_ERROR"],
    ]


def test_partitions_are_shown_with_where_they_are() -> None:
    assert [cells(line) for line in partition_lines(ROWS)[1:]] == [
        ["t", "0", "1", "/a", "10", "0", "no"],
        ["u", "2", "1", "/a", "30", "7", "yes"],
    ]


def a_topic(name: str, partitions: int) -> TopicDescription:
    rows = tuple(
        PartitionDescription(partition=index, leader=1, replicas=(1,), isr=(1,), offline_replicas=())
        for index in range(partitions)
    )
    return TopicDescription(name=name, topic_id=None, is_internal=False, partitions=rows)


TOPICS = [a_topic("t", 2), a_topic("t-1", 1), a_topic("u", 3)]


def test_a_topic_means_all_its_partitions() -> None:
    assert named_partitions(["t", "u-2", "t-0"], TOPICS) == [("t", 0), ("t", 1), ("u", 2)]


def test_a_topic_that_is_called_like_a_partition_comes_first() -> None:
    assert named_partitions(["t-1"], TOPICS) == [("t-1", 0)]


@pytest.mark.parametrize("name", ["absent", "u-3", "u--1", "-", "u-\u0661"])
def test_an_unknown_partition_is_named(name: str) -> None:
    with pytest.raises(CommandFailed, match="no topic or partition"):
        named_partitions([name], TOPICS)


def test_the_broker_is_found_by_its_directory() -> None:
    assert broker_of(ROWS, "/a", None) == 1
    with pytest.raises(CommandFailed, match="no broker has a log directory /c; existing ones: /a, /b"):
        broker_of(ROWS, "/c", None)
    two = [*ROWS, LogDirDescription(2, "/a", None, 1, 1, ())]
    with pytest.raises(CommandFailed, match="brokers 1, 2 have a log directory /a"):
        broker_of(two, "/a", None)
    assert broker_of(two, "/a", 2) == 2


def test_moves_say_where_a_partition_is_and_how_much_of_it_is_there() -> None:
    rows = [
        LogDirDescription(1, "/a", None, 1, 1, (Replica("t", 0, 100, 0, False), Replica("t", 1, 50, 0, False))),
        LogDirDescription(1, "/b", None, 1, 1, (Replica("t", 0, 25, 7, True), Replica("u", 0, 9, 0, False))),
    ]
    wanted = [("t", 0), ("t", 1), ("u", 0), ("gone", 0)]
    moves = find_moves(rows, wanted, 1, "/b")
    assert [(each.topic, each.partition, each.source, each.is_done, each.is_under_way) for each in moves] == [
        ("t", 0, "/a", False, True),
        ("t", 1, "/a", False, False),
        ("u", 0, "/b", True, False),
    ]
    assert percent_of(moves) == 100 * (25 + 9) // 159


def test_a_partition_on_its_way_elsewhere_can_be_kept_where_it_is() -> None:
    rows = [
        LogDirDescription(1, "/a", None, 1, 1, (Replica("t", 0, 100, 0, False),)),
        LogDirDescription(1, "/b", None, 1, 1, (Replica("t", 0, 25, 7, True),)),
    ]
    assert find_moves(rows, [("t", 0)], 1, "/a") == [ReplicaMove("t", 0, 1, "/a", "/a", 100, 0, True)]


def test_nothing_to_copy_is_all_of_it() -> None:
    assert percent_of([ReplicaMove("t", 0, 1, "/a", "/b", 0)]) == 100


def test_nobody_is_asked_about_no_moves() -> None:
    """All may have been refused."""
    assert follow(cast(BrokerClient, None), [], shows=False) == []
