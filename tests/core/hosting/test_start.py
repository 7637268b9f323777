"""How a broker in a cluster begins: its replicas on disk are loaded, and no directory makes or extends a topic."""

from uuid import UUID

import pytest

from kafkad.core.cluster.control_requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
)
from kafkad.core.controller.image import NO_LEADER, NO_SLOT, Broker, Listener
from kafkad.core.controller.startup.reconciliation import FoundDirectory, UnusableMetadata
from kafkad.core.controller.startup.startup import Directories, SharedMemoryState
from kafkad.core.errors import ErrorCode
from kafkad.core.hosting.start import AssignedTopic, HostStarted, start_host
from kafkad.core.types import TopicPartition

ID, OTHER_ID = UUID(int=7), UUID(int=8)
TOPIC = AssignedTopic(name="t", id=ID, assignments=((2, 1), (1, 3), (3, 2)), configs={"retention.ms": "1"})


def found(name: str, log_dir: int = 0, topic_id: UUID | None = ID) -> FoundDirectory:
    return FoundDirectory(log_dir=log_dir, name=name, topic_id=topic_id)


def started(
    *directories: FoundDirectory, brokers: tuple[Broker, ...] = (), inherited: SharedMemoryState | None = None
) -> HostStarted:
    return start_host(
        broker_id=2,
        workers=2,
        cluster_id="c",
        topics={"t": TOPIC},
        broker_configs={"": {"log.retention.ms": "1"}},
        directories=Directories(found=directories, online=frozenset({0, 1})),
        brokers={each.id: each for each in brokers},
        inherited=inherited,
    )


def test_replicas_on_disk_have_a_place_and_no_role() -> None:
    image = started(found("t-0", 1), found("t-2")).hosting.image
    rows = image.topics["t"].partitions
    assert [row.log_dir for row in rows] == [1, -1, 0]
    assert [row.slot >= 0 for row in rows] == [True, False, True]
    assert {(row.leader, row.leader_epoch) for row in rows} == {(NO_LEADER, -1)}
    assert image.topics["t"].configs == TOPIC.configs
    assert (image.cluster_id, image.broker_configs) == ("c", {"": {"log.retention.ms": "1"}})


def test_clients_are_told_of_the_registered_brokers_before_the_controller_says_who_lives() -> None:
    listener = Listener(name="PLAINTEXT", host="h", port=1, security_protocol="PLAINTEXT")
    one, earlier_self, three = (Broker(id=each, epoch=each, listeners=(listener,), rack=None) for each in (1, 2, 3))
    hosting = started(brokers=(one, earlier_self, three)).hosting
    assert hosting.image.brokers == {1: one, 3: three}
    hosting.registered(9, (listener,), None)
    assert {each.id: each.epoch for each in hosting.image.brokers.values()} == {1: 1, 2: 9, 3: 3}


def test_any_leader_epoch_gives_a_loaded_replica_its_role() -> None:
    hosting = started(found("t-0", 1)).hosting
    state = LeaderAndIsrPartition(
        partition_index=0, controller_epoch=1, leader=2, leader_epoch=0, isr=(2,), partition_epoch=0, replicas=(2, 1)
    )
    topic = LeaderAndIsrTopic(topic_name="t", topic_id=ID, partition_states=(state,))
    before = hosting.image.topics["t"].partitions[0]
    request = LeaderAndIsrRequest(controller_id=1, controller_epoch=1, topic_states=(topic,))
    response = hosting.leader_and_isr(request, {})
    assert [each.error_code for each in response.topics[0].partition_errors] == [ErrorCode.NONE]
    after = hosting.image.topics["t"].partitions[0]
    assert (after.leader, after.slot, after.log_dir) == (2, before.slot, before.log_dir)


@pytest.mark.parametrize("is_registered", [False, True])
def test_a_reassignment_that_ended_while_logs_were_loaded_removes_the_replica(is_registered: bool) -> None:
    """Only what is said to this life's registration counts: anything else may be older than the replica."""
    hosting = started(found("t-0", 1)).hosting
    if is_registered:
        hosting.registered(9, (), None)
    state = UpdateMetadataPartition(
        partition_index=0, controller_epoch=1, leader=1, leader_epoch=0, isr=(1,), zk_version=3, replicas=(1, 3)
    )
    topic = UpdateMetadataTopic(topic_name="t", topic_id=ID, partition_states=(state,))
    request = UpdateMetadataRequest(
        controller_id=1, controller_epoch=1, broker_epoch=9, topic_states=(topic,), live_brokers=()
    )
    hosting.update_metadata(request, {})
    row = hosting.image.topics["t"].partitions[0]
    assert (row.slot == NO_SLOT) is is_registered
    assert (row.replicas == (1, 3)) is is_registered


def test_a_topic_without_directories_here_is_not_known_until_the_controller_says_so() -> None:
    assert started().hosting.image.topics == {}


@pytest.mark.parametrize(
    ("directory", "reason"),
    [
        (found("gone-0"), "its topic was deleted meanwhile"),
        (found("t-0", topic_id=OTHER_ID), "it is of an earlier topic of that name"),
        (found("t-1"), "the replica was moved to other brokers"),
        (found("t-7"), "there is no such partition"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_directories_that_no_assignment_names_are_strays(directory: FoundDirectory, reason: str) -> None:
    start = started(directory)
    topic, _, index = directory.name.rpartition("-")
    assert start.strays == ((0, TopicPartition(topic, int(index))),), reason
    assert start.hosting.image.topics == {}


def test_directories_that_are_set_aside_stay_and_those_of_a_deletion_are_named() -> None:
    leaving = found("t-0.0123456789abcdef0123456789abcdef-delete")
    start = started(leaving, found("t-0.0123456789abcdef0123456789abcdef-stray"))
    assert (start.strays, start.leftovers) == ((), (leaving,))


def test_one_replica_in_two_directories_is_refused() -> None:
    with pytest.raises(UnusableMetadata, match="found in two log directories"):
        started(found("t-0", 0), found("t-0", 1))


def test_a_new_controller_process_finds_the_places_that_live_workers_have() -> None:
    first = started(found("t-0", 1), found("t-2")).hosting
    state = SharedMemoryState(image=first.image, slots_ever_used=first.slots_ever_used)
    second = started(found("t-0", 1), found("t-2"), inherited=state).hosting
    assert second.image.version == first.image.version + 1
    assert second.image.topics == first.image.topics
    assert NO_SLOT not in {row.slot for row in second.image.topics["t"].partitions if row.index != 1}
