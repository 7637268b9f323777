"""AlterReplicaLogDirs on a broker in a cluster: what changes in its image, and what other events leave of a move."""

import pytest

from kafkad.core.cluster.control_requests import StopReplicaPartition
from kafkad.core.controller.image import NO_LOG_DIR, Partition
from kafkad.core.controller.log_dir_moves import alter_replica_log_dirs
from kafkad.core.errors import ErrorCode
from kafkad.core.hosting.hosting import Hosting
from kafkad.core.log.segments.layout import future_directory_name
from kafkad.core.types import TopicPartition
from tests.core.hosting.test_hosting import CONFIGS, ID, a_host, a_state, led, stopped
from tests.core.hosting.test_start import found, started

PATHS = ("/one", "/two")
T0 = TopicPartition("t", 0)


@pytest.fixture
def host() -> Hosting:
    host = a_host()
    host.leader_and_isr(led(a_state(0), a_state(1)), CONFIGS)
    return host


def row(host: Hosting, index: int = 0) -> Partition:
    return host.image.topics["t"].partitions[index]


def places(host: Hosting, index: int = 0) -> tuple[int, int]:
    return row(host, index).log_dir, row(host, index).future_dir


def ask(host: Hosting, at: TopicPartition, path: str, offline: tuple[int, ...] = ()) -> ErrorCode:
    return alter_replica_log_dirs(host, [(at, path)], PATHS, offline)[at]


def test_a_move_is_known_to_all_until_its_owner_says_that_it_has_ended(host: Hosting) -> None:
    assert (places(host), places(host, 1)) == ((0, NO_LOG_DIR), (1, NO_LOG_DIR))
    assert ask(host, T0, "/two") is ErrorCode.NONE
    assert places(host) == (0, 1)
    host.partition_moved(ID.bytes, 0, 1, 1)
    assert places(host) == (1, NO_LOG_DIR)


@pytest.mark.parametrize(
    ("at", "path", "offline", "expected"),
    [
        (T0, "/elsewhere", (), ErrorCode.LOG_DIR_NOT_FOUND),
        (T0, "/two", (1,), ErrorCode.KAFKA_STORAGE_ERROR),
        (TopicPartition("other", 0), "/two", (), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("t", 7), "/two", (), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_can_t_be_moved_has_apache_kafkas_codes(
    host: Hosting, at: TopicPartition, path: str, offline: tuple[int, ...], expected: ErrorCode
) -> None:
    assert ask(host, at, path, offline) is expected


def test_a_cordoned_directory_gets_nothing(host: Hosting) -> None:
    host.cordon(frozenset({1}))
    assert ask(host, T0, "/two") is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_replica_that_is_not_here_yet_will_be_made_where_it_was_asked_for(host: Hosting) -> None:
    assert ask(host, TopicPartition("t", 2), "/two") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    host.leader_and_isr(led(a_state(2)), CONFIGS)
    assert places(host, 2) == (1, NO_LOG_DIR), "without it it would be in /one, as the third"


def test_a_new_role_leaves_the_move_alone(host: Hosting) -> None:
    ask(host, T0, "/two")
    host.leader_and_isr(led(a_state(0, leader=1, leader_epoch=1)), CONFIGS)
    assert places(host) == (0, 1)


@pytest.mark.parametrize(("failed", "expected"), [(0, (NO_LOG_DIR, NO_LOG_DIR)), (1, (0, NO_LOG_DIR))])
def test_a_directory_that_fails_ends_the_move(host: Hosting, failed: int, expected: tuple[int, int]) -> None:
    ask(host, T0, "/two")
    host.directory_failed(failed)
    assert places(host) == expected


def test_a_deleted_replica_leaves_nothing_of_its_move(host: Hosting) -> None:
    ask(host, T0, "/two")
    host.stop_replica(stopped(StopReplicaPartition(partition_index=0, leader_epoch=5, delete_partition=True)))
    assert places(host) == (NO_LOG_DIR, NO_LOG_DIR)
    host.leader_and_isr(led(a_state(0, leader_epoch=6)), CONFIGS)
    assert places(host) == (0, NO_LOG_DIR)
    assert host.cordoned_dirs == frozenset()


def test_moves_count_where_they_go_to_until_they_are_over(host: Hosting) -> None:
    ask(host, T0, "/two")
    host.leader_and_isr(led(a_state(2), a_state(3)), CONFIGS)
    assert [places(host, index)[0] for index in (2, 3)] == [0, 0], "/two has one, and gets another"
    host.partition_moved(ID.bytes, 0, 1, 1)
    host.leader_and_isr(led(a_state(4)), CONFIGS)
    assert places(host, 4)[0] == 0, "two are in each: the first is taken"


def test_a_start_goes_on_with_the_moves_that_left_a_directory() -> None:
    name = future_directory_name(T0, ID.hex)
    host = started(found("t-0", 0), found(name, 1), found("t-2", 1)).hosting
    assert places(host) == (0, 1)
    assert places(host, 2) == (1, NO_LOG_DIR)
