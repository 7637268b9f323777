"""What AlterReplicaLogDirs changes, and what is known of moves after a start."""

from uuid import UUID

import pytest

from kafkad.core.controller.image import NO_LOG_DIR, Partition
from kafkad.core.controller.log_dir_moves import alter_replica_log_dirs
from kafkad.core.controller.startup.startup import SharedMemoryState
from kafkad.core.controller.topics.placement import MAX_PREFERRED
from kafkad.core.errors import ErrorCode
from kafkad.core.log.segments.layout import future_directory_name
from kafkad.core.types import TopicPartition
from tests.core.controller.world import World

PATHS = ("/one", "/two")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def world() -> World:
    world = World()
    world.start()
    world.create("t", partitions=2)
    world.open_partitions()
    return world


def ask(world: World, *wanted: tuple[TopicPartition, str]) -> list[ErrorCode]:
    return list(alter_replica_log_dirs(world.hosting, wanted, PATHS, world.offline).values())


def row(world: World, at: TopicPartition = T0) -> Partition:
    return world.image.topics[at.topic].partitions[at.partition]


def places(world: World, at: TopicPartition = T0) -> tuple[int, int]:
    return row(world, at).log_dir, row(world, at).future_dir


def test_a_move_is_known_to_all_until_its_owner_says_that_it_has_ended(world: World) -> None:
    assert (places(world), places(world, T1)) == ((0, NO_LOG_DIR), (1, NO_LOG_DIR))
    assert ask(world, (T0, "/two")) == [ErrorCode.NONE]
    assert places(world) == (0, 1)
    world.hosting.partition_moved(world.image.topics["t"].id.bytes, 0, 1, 1)
    assert places(world) == (1, NO_LOG_DIR)


def test_the_directory_where_it_is_ends_the_move(world: World) -> None:
    ask(world, (T0, "/two"))
    assert ask(world, (T0, "/one")) == [ErrorCode.NONE]
    assert places(world) == (0, NO_LOG_DIR)


def test_what_is_so_already_changes_no_version(world: World) -> None:
    ask(world, (T0, "/two"))
    version = world.image.version
    assert ask(world, (T0, "/two"), (T1, "/two")) == [ErrorCode.NONE, ErrorCode.NONE]
    assert world.image.version == version


def test_a_move_that_was_given_up_leaves_the_partition_where_it_is(world: World) -> None:
    ask(world, (T0, "/two"))
    world.hosting.partition_moved(world.image.topics["t"].id.bytes, 0, 0, 1)
    assert places(world) == (0, NO_LOG_DIR)


def test_the_end_of_one_move_does_not_end_the_next(world: World) -> None:
    world = World(disks=3)
    world.start()
    world.create("t")
    paths = ("/one", "/two", "/three")
    alter_replica_log_dirs(world.hosting, [(T0, "/two")], paths, ())
    alter_replica_log_dirs(world.hosting, [(T0, "/three")], paths, ())
    world.hosting.partition_moved(world.image.topics["t"].id.bytes, 0, 1, 1)
    assert places(world) == (1, 2)


def test_refusals_are_those_of_apache_kafka(world: World) -> None:
    long_name = TopicPartition("x" * 240, 0)
    codes = ask(world, (T0, "/none"), (TopicPartition("t", 9), "/one"), (TopicPartition("u", 0), "/one"),
                (long_name, "/one"))  # fmt: skip
    assert codes == [
        ErrorCode.LOG_DIR_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


def test_nothing_moves_to_a_cordoned_directory(world: World) -> None:
    world.hosting.cordon(frozenset({1}))
    codes = ask(world, (T0, "/two"), (T1, "/one"), (TopicPartition("u", 0), "/two"))
    assert codes == [
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NONE,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ]


def test_nothing_new_moves_while_a_directory_is_offline(world: World) -> None:
    world.directory_failed(1)
    assert ask(world, (T0, "/two"), (T1, "/one")) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR]
    assert ask(world, (T0, "/one")) == [ErrorCode.NONE]


def test_a_target_that_fails_ends_the_move(world: World) -> None:
    ask(world, (T0, "/two"))
    world.directory_failed(1)
    assert places(world) == (0, NO_LOG_DIR)


def test_a_partition_is_made_where_it_was_wanted(world: World) -> None:
    later = TopicPartition("later", 1)
    ask(world, (later, "/one"), (TopicPartition("later", 0), "/one"), (TopicPartition("later", 2), "/one"))
    world.create("later", partitions=3)
    assert [row(world, TopicPartition("later", index)).log_dir for index in range(3)] == [0, 0, 0]
    # And not in the next life of the name.
    world.delete("later")
    world.delete_directories()
    world.create("later", partitions=3)
    assert {row(world, TopicPartition("later", index)).log_dir for index in range(3)} == {0, 1}


def test_wishes_for_partitions_that_never_come_are_bounded(world: World) -> None:
    for number in range(MAX_PREFERRED + 10):
        world.hosting.prefer_log_dir(TopicPartition("never", number), 0)
    assert len(world.hosting._placement._preferred) == MAX_PREFERRED


def test_a_future_folder_goes_on_being_moved_after_a_start(world: World) -> None:
    topic_id = world.image.topics["t"].id
    world.disks[1][future_directory_name(T0, topic_id.hex)] = topic_id
    world.start()
    assert places(world) == (0, 1)
    assert not world.leftovers


def test_a_future_folder_of_apache_kafka_is_copied_anew_under_another_name(world: World) -> None:
    world.disks[1]["t-0.0123456789abcdef-future"] = world.image.topics["t"].id
    world.start()
    assert places(world) == (0, 1)
    assert [each.name for each in world.leftovers] == ["t-0.0123456789abcdef-future"]


def test_of_two_future_folders_one_goes_on(world: World) -> None:
    """The other is of a move that was ended while its worker was dead."""
    world = World(disks=3)
    world.start()
    world.create("t")
    world.open_partitions()
    topic_id = world.image.topics["t"].id
    name = future_directory_name(T0, topic_id.hex)
    world.disks[1][name] = world.disks[2][name] = topic_id
    world.start()
    assert places(world) == (0, 1)
    assert [(each.log_dir, each.name) for each in world.leftovers] == [(2, name)]


@pytest.mark.parametrize(
    ("name", "topic_id"), [("t-0.0123-future", UUID(int=77)), ("other-0.0123-future", None), ("t-9.0123-future", None)]
)
def test_a_future_folder_of_no_partition_is_left_alone(world: World, name: str, topic_id: UUID | None) -> None:
    world.disks[1][name] = topic_id
    world.start()
    assert world.taken_over is not None
    assert [each.name for each in world.taken_over.reconciliation.set_aside] == [name]
    assert places(world) == (0, NO_LOG_DIR)


def test_a_future_folder_beside_its_own_partition_is_removed(world: World) -> None:
    world.disks[0]["t-0.0123-future"] = world.image.topics["t"].id
    world.start()
    assert [each.name for each in world.leftovers] == ["t-0.0123-future"]


def test_the_future_folder_of_a_deleted_topic_is_removed(world: World) -> None:
    topic_id = world.image.topics["t"].id
    world.delete("t")
    world.disks[1]["t-0.0123-future"] = topic_id
    world.start()
    assert [each.name for each in world.leftovers] == ["t-0.0123-future"]


def test_a_controller_that_died_finds_the_moves_in_the_slots(world: World) -> None:
    ask(world, (T0, "/two"))
    inherited = SharedMemoryState(image=world.image, slots_ever_used=world.hosting.slots_ever_used)
    world.start(inherited)
    assert places(world) == (0, 1)


def counted(world: World) -> list[int]:
    """By log directory, what the choice of one for a new partition compares."""
    loads = world.hosting._placement._directories
    return [loads.get(log_dir, -1) for log_dir in range(2)]


def test_a_partition_on_its_way_counts_where_it_goes_to_as_well(world: World) -> None:
    ask(world, (T1, "/one"))
    assert counted(world) == [2, 1]
    world.create("u")
    assert places(world, TopicPartition("u", 0)) == (1, NO_LOG_DIR)
    world.hosting.partition_moved(world.image.topics["t"].id.bytes, 1, 0, 0)
    assert counted(world) == [2, 1]


def test_a_move_that_ends_without_success_counts_no_more(world: World) -> None:
    ask(world, (T1, "/one"))
    ask(world, (T1, "/two"))
    assert counted(world) == [1, 1]
    ask(world, (T1, "/one"))
    world.hosting.partition_moved(world.image.topics["t"].id.bytes, 1, 1, 0)
    assert counted(world) == [1, 1]
    ask(world, (T1, "/one"))
    world.delete("t")
    assert counted(world) == [0, 0]


def test_a_partition_whose_directory_failed_in_mid_move_counts_nowhere(world: World) -> None:
    ask(world, (T1, "/one"))
    world.directory_failed(1)
    assert counted(world) == [1, -1]


@pytest.mark.parametrize("inherits", [False, True])
def test_moves_that_go_on_after_a_start_count(world: World, inherits: bool) -> None:
    ask(world, (T1, "/one"))
    image, ever_used = world.image, world.hosting.slots_ever_used
    topic_id = image.topics["t"].id
    world.disks[0][future_directory_name(T1, topic_id.hex)] = topic_id
    world.start(SharedMemoryState(image=image, slots_ever_used=ever_used) if inherits else None)
    assert places(world, T1) == (1, 0)
    assert counted(world) == [2, 1]
