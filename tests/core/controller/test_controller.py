from uuid import UUID

import pytest

from kafkad.core.controller.admin import auto_create_topics, create_partitions
from kafkad.core.controller.deltas import apply, snapshot
from kafkad.core.controller.image import NO_LEADER, NO_LOG_DIR, MetadataImage
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.controller.startup.startup import SharedMemoryState
from kafkad.core.controller.startup.term import claim
from kafkad.core.controller.store.nodes import DELETIONS, decode_state, decode_topic, encode_id
from kafkad.core.controller.topics.deletion import TopicToDelete, delete_topics
from kafkad.core.controller.topics.topics import NewPartitions
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.types import TopicPartition
from tests.core.controller.world import BROKER_ID, World


@pytest.fixture
def world() -> World:
    world = World()
    world.start()
    return world


def follow(image: MetadataImage, world: World) -> MetadataImage:
    for delta in world.controller.take_deltas():
        image = apply(image, delta)
    return image


def test_a_process_that_follows_the_deltas_has_the_controllers_image(world: World) -> None:
    image = apply(MetadataImage(), snapshot(world.controller.image))
    world.create("a", "b", partitions=3)
    image = follow(image, world)
    assert image == world.controller.image
    delete_topics(world.controller, [TopicToDelete("a")], version=6)
    world.controller.set_topic_config("b", {"retention.ms": "1"})
    world.controller.directory_failed(0)
    image = follow(image, world)
    assert image == world.controller.image
    assert world.controller.take_deltas() == []


def test_partitions_of_many_topics_are_added_in_one_version(world: World) -> None:
    """With a version and a transaction for each, ten thousand topics kept every process busy for many seconds."""
    names = [f"t{number}" for number in range(200)]
    world.create(*names)
    image = follow(apply(MetadataImage(), snapshot(world.controller.image)), world)
    added = [NewPartitions(name=name, count=2 + at % 2) for at, name in enumerate(names)]
    results = create_partitions(world.controller, [*added, NewPartitions(name="missing", count=2)])
    assert [result.code for result in results] == [ErrorCode.NONE] * 200 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    (delta,) = world.controller.take_deltas()
    assert apply(image, delta) == world.controller.image
    assert [len(world.controller.image.topics[name].partitions) for name in names] == [2, 3] * 100
    world.start()
    assert [len(world.controller.image.topics[name].partitions) for name in names] == [2, 3] * 100


def test_nodes_of_a_topic_look_as_apache_kafka_writes_them(world: World) -> None:
    world.create("t", partitions=2)
    topic = world.controller.image.topics["t"]
    node = world.store.get("/brokers/topics/t").data
    assert node == (
        b'{"partitions":{"0":[1],"1":[1]},"topic_id":"%s","adding_replicas":{},"removing_replicas":{},"version":3}'
        % encode_id(topic.id).encode()
    )
    assert decode_topic(node).topic_id == encode_id(topic.id)
    state = decode_state(world.store.get("/brokers/topics/t/partitions/1/state").data)
    assert (state.leader, state.leader_epoch, state.isr, state.controller_epoch) == (1, 0, (1,), 1)
    assert world.store.get("/config/topics/t").data == b'{"version":1,"config":{}}'
    assert world.store.get("/brokers/topics/t/partitions/0").data == b""
    controller = world.store.get("/controller").data
    assert controller == b'{"version":2,"brokerid":1,"timestamp":"2","kraftControllerEpoch":-1}'


def test_topic_ids_are_written_as_kafka_prints_them() -> None:
    # The id of ZK-mode recordings: 16 bytes, URL-safe, no padding.
    assert encode_id(UUID("ffffffff-ffff-ffff-ffff-ffffffffffff")) == "_____________________w"


def auto_created(world: World, *names: str) -> dict[str, ErrorCode]:
    results = auto_create_topics(world.controller, names, world.rules, world.random_source)
    return {name: result.code for name, result in results.items()}


def test_records_of_an_adopted_topic_are_kept_until_somebody_says_otherwise(world: World) -> None:
    world.start()
    world.disks[0] |= {"theirs-0": None, "__consumer_offsets-0": None}
    world.start()
    topics = world.controller.image.topics
    assert topics["theirs"].configs == {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    assert topics["__consumer_offsets"].configs == {"cleanup.policy": "compact"}


def test_a_deleted_name_is_refused_until_the_directories_are_gone(world: World) -> None:
    world.create("t", partitions=2)
    (first,) = (world.controller.image.topics["t"].id,)
    slots = [partition.slot for partition in world.controller.image.topics["t"].partitions]
    delete_topics(world.controller, [TopicToDelete("t")], version=6)
    (result,) = world.create("t")
    assert (result.code, result.message) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic 't' is marked for deletion.",
    )
    assert auto_created(world, "t") == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not world.controller.slots_deleted(first, slots[:1])
    assert world.controller.slots_deleted(first, slots[1:])
    world.finish_deletions()
    (result,) = world.create("t")
    assert result.code is ErrorCode.NONE
    assert world.controller.image.topics["t"].id != first


def test_slots_of_a_deleted_topic_are_reused_after_everybody_has_seen_it(world: World) -> None:
    world.create("a")
    slot = world.controller.image.topics["a"].partitions[0].slot
    delete_topics(world.controller, [TopicToDelete("a")], version=6)
    deleted_at = world.controller.image.version
    world.controller.acknowledged(deleted_at - 1)
    world.create("b")
    assert world.controller.image.topics["b"].partitions[0].slot != slot
    world.controller.acknowledged(deleted_at)
    world.create("c")
    assert world.controller.image.topics["c"].partitions[0].slot == slot


def test_auto_creation_uses_the_defaults_and_the_settings_of_internal_topics(world: World) -> None:
    assert auto_created(world, "new", "__consumer_offsets", "x y", "new") == {
        "new": ErrorCode.NONE,
        "__consumer_offsets": ErrorCode.NONE,
        "x y": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    topics = world.controller.image.topics
    assert {name: len(topic.partitions) for name, topic in topics.items()} == {"new": 1, "__consumer_offsets": 5}
    version = world.controller.image.version
    assert auto_created(world, "new") == {"new": ErrorCode.NONE}
    assert world.controller.image.version == version


def test_a_failed_directory_takes_its_partitions_offline_and_a_start_brings_them_back(world: World) -> None:
    world.create("t", partitions=4)
    world.open_partitions()
    world.controller.directory_failed(0)
    partitions = world.controller.image.topics["t"].partitions
    offline = [each for each in partitions if each.leader == NO_LEADER]
    assert len(offline) == 2
    assert all((each.log_dir, each.leader_epoch, each.isr) == (NO_LOG_DIR, 1, (1,)) for each in offline)
    assert {each.log_dir for each in partitions} == {NO_LOG_DIR, 1}
    world.create("u", partitions=2)
    assert {each.log_dir for each in world.controller.image.topics["u"].partitions} == {1}
    world.start()
    partitions = world.controller.image.topics["t"].partitions
    assert [each.leader for each in partitions] == [1] * 4
    assert sorted(each.leader_epoch for each in partitions) == [0, 0, 2, 2]


def test_a_directory_that_fails_holds_up_the_deletions_of_what_was_in_it_only(world: World) -> None:
    world.create("here", "there")
    world.open_partitions()
    topics = world.controller.image.topics
    log_dirs = {name: topics[name].partitions[0].log_dir for name in topics}
    assert set(log_dirs.values()) == {0, 1}
    world.controller.delete_topics(["here", "there"])
    for name in topics:
        world.controller.partitions_deleted(name, [0])
    world.controller.directory_failed(log_dirs["here"])
    world.finish_deletions()
    assert world.store.children(DELETIONS) == ["here"], "what was renamed in its directory may come back"
    assert not world.controller.has_unfinished_deletions


def test_a_deletion_waits_for_the_directory_to_which_a_replica_was_on_its_way(world: World) -> None:
    world.create("t")
    world.open_partitions()
    (row,) = world.controller.image.topics["t"].partitions
    world.controller.move_partitions({TopicPartition("t", 0): 1 - row.log_dir})
    world.controller.delete_topics(["t"])
    world.controller.directory_failed(1 - row.log_dir)
    assert not world.controller.partitions_deleted("t", [0])


def test_a_start_with_an_offline_directory_makes_no_second_copy_of_what_is_in_it(world: World) -> None:
    world.create("t", partitions=4)
    world.open_partitions()
    world.offline = {0}
    world.start()
    partitions = world.controller.image.topics["t"].partitions
    assert sorted((each.log_dir, each.leader) for each in partitions) == [(-1, -1), (-1, -1), (1, 1), (1, 1)]
    delete_topics(world.controller, [TopicToDelete("t")], version=6)
    world.start()
    assert "t" in world.controller.deletions, "a partition of it may be on the disk that is away"
    world.disks[1].clear()
    world.offline = set()
    world.start()
    assert set(world.controller.deletions["t"].remaining) == {0, 2}
    world.delete_directories("t")
    assert not world.controller.deletions


def test_a_restarted_controller_process_keeps_every_place_and_goes_on_counting_versions(world: World) -> None:
    world.create("a", "b", partitions=3)
    world.open_partitions()
    before = world.controller
    world.start(SharedMemoryState(image=before.image, slots_ever_used=before.slots_ever_used))
    after = world.controller
    assert after.image.version == before.image.version + 1
    assert after.image.topics == before.image.topics
    world.create("c", partitions=3)
    slots = [p.slot for topic in after.image.topics.values() for p in topic.partitions]
    assert len(set(slots)) == len(slots)


def test_a_restart_of_the_broker_finds_partitions_where_they_are(world: World) -> None:
    world.create("a", partitions=5)
    world.open_partitions()
    where = [each.log_dir for each in world.controller.image.topics["a"].partitions]
    world.disks.reverse()
    world.start()
    assert [each.log_dir for each in world.controller.image.topics["a"].partitions] == [1 - at for at in where]


def test_more_partitions_on_disk_than_in_the_store_are_all_served(world: World) -> None:
    world.create("a")
    world.open_partitions()
    world.disks[1]["a-2"] = None
    world.start()
    assert world.started is not None and world.started.extended == ("a",)
    assert len(world.controller.image.topics["a"].partitions) == 3


def test_a_partition_in_two_directories_refuses_the_start(world: World) -> None:
    world.create("a")
    world.disks[0]["a-0"] = world.disks[1]["a-0"] = None
    with pytest.raises(UnusableMetadata, match=r"a-0 in log.dirs\[0\] and \[1\]"):
        world.start()


def test_a_topic_written_without_an_id_gets_one(world: World) -> None:
    world.store.create("/brokers/topics/bare", b'{"version":1,"partitions":{"0":[1]}}')
    world.start()
    topic = world.controller.image.topics["bare"]
    assert decode_topic(world.store.get("/brokers/topics/bare").data).topic_id == encode_id(topic.id)
    assert topic.partitions[0].leader == BROKER_ID


def test_writes_of_an_earlier_term_are_fenced(world: World) -> None:
    old = world.controller
    world.start()
    with pytest.raises(Exception, match="BadVersion: /controller_epoch"):
        old.set_broker_config("", {"log.retention.ms": "1"})
    assert world.store.get("/controller_epoch").data == b"2"


def test_a_second_broker_does_not_become_the_controller(world: World) -> None:
    world.store.delete("/controller")
    world.store.create("/controller", b"{}")
    with pytest.raises(KafkaError) as refused:
        claim(world.store, BROKER_ID, now_ms=1)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


def test_old_config_notifications_are_pruned_at_start(world: World) -> None:
    for value in range(120):
        world.controller.set_broker_config("", {"log.retention.ms": str(value)})
    world.start()
    names = world.store.children("/config/changes")
    assert len(names) == 100
    assert names[-1].endswith("119")
    assert b'"brokers/<default>"' in world.store.get(f"/config/changes/{names[0]}").data


def test_topics_whose_last_directory_is_gone_leave_the_store_together(world: World) -> None:
    """Each commit waits for the disk, and whoever asks the controller waits with it."""
    names = [f"t{number}" for number in range(100)]
    world.create(*names)
    delete_topics(world.controller, [TopicToDelete(name) for name in names], version=6)
    for name in names:
        world.controller.partitions_deleted(name, [0])
    assert world.controller.deletions_under_way() == set(names), "their names are not free yet"
    world.controller.finish_deletions()
    assert not world.controller.deletions
    assert {result.code for result in world.create(*names)} == {ErrorCode.NONE}


def test_very_many_deletions_are_finished_in_steps(world: World) -> None:
    names = [f"t{number}" for number in range(4)]
    world.create(*names, partitions=300)
    delete_topics(world.controller, [TopicToDelete(name) for name in names], version=6)
    for name in names:
        world.controller.partitions_deleted(name, range(300))
    world.controller.finish_deletions()
    assert set(world.controller.deletions) == {"t2", "t3"}
    assert world.controller.has_unfinished_deletions
    world.controller.finish_deletions()
    assert not world.controller.deletions
    assert not world.controller.has_unfinished_deletions
