from uuid import UUID

import pytest

from kafkad.core.controller.admin import auto_create_topics, create_partitions
from kafkad.core.controller.deltas import apply, snapshot
from kafkad.core.controller.image import NO_LEADER, NO_LOG_DIR, MetadataImage
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.controller.startup.startup import SharedMemoryState
from kafkad.core.controller.startup.term import claim
from kafkad.core.controller.store.nodes import DELETIONS, decode_state, decode_topic, encode_id
from kafkad.core.controller.topics.topics import NewPartitions
from kafkad.core.errors import ErrorCode, KafkaError
from tests.core.controller.world import BROKER_ID, World


@pytest.fixture
def world() -> World:
    world = World()
    world.start()
    return world


def follow(image: MetadataImage, world: World) -> MetadataImage:
    for delta in world.hosting.take_deltas():
        image = apply(image, delta)
    return image


def test_a_process_that_follows_the_deltas_has_the_brokers_image(world: World) -> None:
    world.hosting.take_deltas()
    image = apply(MetadataImage(), snapshot(world.image))
    world.create("a", "b", partitions=3)
    image = follow(image, world)
    assert image == world.image
    world.delete("a")
    world.hosting.topic_config_changed("b", {"retention.ms": "1"})
    world.directory_failed(0)
    image = follow(image, world)
    assert image == world.image
    assert world.hosting.take_deltas() == []


def test_partitions_of_many_topics_are_added_in_one_version(world: World) -> None:
    """With a version and a transaction for each, ten thousand topics kept every process busy for many seconds."""
    names = [f"t{number}" for number in range(200)]
    world.create(*names)
    world.hosting.take_deltas()
    image = apply(MetadataImage(), snapshot(world.image))
    added = [NewPartitions(name=name, count=2 + at % 2) for at, name in enumerate(names)]
    results = create_partitions(world.controller, [*added, NewPartitions(name="missing", count=2)])
    assert [result.code for result in results] == [ErrorCode.NONE] * 200 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    world.deliver()
    (delta,) = world.hosting.take_deltas()
    assert apply(image, delta) == world.image
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
    assert (state.leader, state.leader_epoch, state.isr, state.controller_epoch) == (1, 0, (1,), 2)
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
    first = world.image.topics["t"].id
    world.delete("t")
    (result,) = world.create("t")
    assert (result.code, result.message) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic 't' is marked for deletion.",
    )
    assert auto_created(world, "t") == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    world.delete_directories()
    (result,) = world.create("t")
    assert result.code is ErrorCode.NONE
    assert world.controller.image.topics["t"].id != first


def test_slots_of_a_deleted_topic_are_reused_after_everybody_has_seen_it(world: World) -> None:
    world.create("a")
    slot = world.image.topics["a"].partitions[0].slot
    world.delete("a")
    deleted_at = world.image.version
    world.hosting.acknowledged(deleted_at - 1)
    world.create("b")
    assert world.image.topics["b"].partitions[0].slot != slot
    world.hosting.acknowledged(deleted_at)
    world.create("c")
    assert world.image.topics["c"].partitions[0].slot == slot


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
    world.directory_failed(0)
    partitions = world.image.topics["t"].partitions
    offline = [each for each in partitions if each.leader == NO_LEADER]
    assert len(offline) == 2
    assert all((each.log_dir, each.leader_epoch, each.isr) == (NO_LOG_DIR, 1, (1,)) for each in offline)
    assert {each.log_dir for each in partitions} == {NO_LOG_DIR, 1}
    world.create("u", partitions=2)
    assert {each.log_dir for each in world.image.topics["u"].partitions} == {1}
    world.offline.clear()
    world.start()
    partitions = world.image.topics["t"].partitions
    assert [each.leader for each in partitions] == [1] * 4
    assert sorted(each.leader_epoch for each in partitions) == [0, 0, 2, 2]


def test_a_deletion_waits_for_a_directory_that_failed(world: World) -> None:
    world.create("here", "there")
    world.open_partitions()
    log_dirs = {name: topic.partitions[0].log_dir for name, topic in world.image.topics.items()}
    assert set(log_dirs.values()) == {0, 1}
    world.directory_failed(log_dirs["here"])
    world.delete("here", "there")
    world.delete_directories()
    assert world.store.children(DELETIONS) == ["here"]
    world.controller.retry_deletions()
    world.deliver()
    world.delete_directories()
    assert world.store.children(DELETIONS) == ["here"]
    world.offline.clear()
    world.start()
    world.delete_directories()
    assert world.store.children(DELETIONS) == []
    assert not any(world.disks)


def test_a_start_with_an_offline_directory_makes_no_second_copy_of_what_is_in_it(world: World) -> None:
    world.create("t", partitions=4)
    world.open_partitions()
    world.offline = {0}
    world.start()
    partitions = world.image.topics["t"].partitions
    assert sorted((each.log_dir, each.leader) for each in partitions) == [(-1, -1), (-1, -1), (1, 1), (1, 1)]
    world.delete("t")
    world.delete_directories()
    world.start()
    world.delete_directories()
    assert "t" in world.controller.deletions, "a partition of it may be on the disk that is away"
    world.offline = set()
    world.start()
    world.delete_directories()
    assert not world.controller.deletions
    assert not any(world.disks)


def test_a_restarted_controller_process_keeps_every_place_and_goes_on_counting_versions(world: World) -> None:
    world.create("a", "b", partitions=3)
    world.open_partitions()
    before, ever_used = world.image, world.hosting.slots_ever_used
    world.start(SharedMemoryState(image=before, slots_ever_used=ever_used))
    assert world.image.version > before.version
    assert world.image.topics == before.topics
    world.create("c", partitions=3)
    slots = [p.slot for topic in world.image.topics.values() for p in topic.partitions]
    assert len(set(slots)) == len(slots)


def test_a_restart_of_the_broker_finds_partitions_where_they_are(world: World) -> None:
    world.create("a", partitions=5)
    world.open_partitions()
    where = [each.log_dir for each in world.image.topics["a"].partitions]
    world.disks.reverse()
    world.start()
    assert [each.log_dir for each in world.image.topics["a"].partitions] == [1 - at for at in where]


def test_more_partitions_on_disk_than_in_the_store_are_all_served(world: World) -> None:
    world.create("a")
    world.open_partitions()
    world.disks[1]["a-2"] = None
    world.start()
    assert world.taken_over is not None and world.taken_over.extended == ("a",)
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
    assert world.store.get("/controller_epoch").data == b"4"


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
    world.delete(*names)
    assert set(world.controller.deletions) == set(names), "their names are not free yet"
    before = world.store.done
    world.delete_directories()
    assert not world.controller.deletions
    assert world.store.done - before == 6 * len(names), "all in two transactions"
    assert {result.code for result in world.create(*names)} == {ErrorCode.NONE}
