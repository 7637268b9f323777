"""What a broker answers the controller, and how its image changes: the rules and codes of Apache Kafka 3.9."""

from dataclasses import replace
from uuid import UUID

import pytest
from msgspec import structs

from kafkad.core.cluster.control_requests import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    PARTITIONS_OF_TOPIC,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    LiveBroker,
    LiveEndpoint,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaTopic,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
)
from kafkad.core.controller.deltas import PartitionsChanged, ReplicasRemoved, TopicCreated, TopicDeleted, apply
from kafkad.core.controller.image import NO_LEADER, NO_LOG_DIR, NO_SLOT, Listener, MetadataImage, Partition
from kafkad.core.controller.topics.placement import Placement, SlotTable
from kafkad.core.errors import ErrorCode
from kafkad.core.hosting.hosting import Hosting

HERE = 2
EPOCH = 105
ID, OTHER_ID = UUID(int=7), UUID(int=8)
CONFIGS = {"t": {"retention.ms": "1"}}
PLAINTEXT = Listener(name="PLAINTEXT", host="two", port=9092, security_protocol="PLAINTEXT")


def a_host(*, offline: bool = False, slots: int = 100) -> Hosting:
    placement = Placement(SlotTable(size=slots), workers=2, online_dirs=(0,) if offline else (0, 1))
    host = Hosting(
        broker_id=HERE,
        image=MetadataImage(version=1, cluster_id="c"),
        placement=placement,
        has_offline_directory=offline,
    )
    host.registered(EPOCH, (PLAINTEXT,), None)
    return host


def a_state(index: int = 0, **changed: object) -> LeaderAndIsrPartition:
    state = LeaderAndIsrPartition(
        partition_index=index,
        controller_epoch=1,
        leader=HERE,
        leader_epoch=0,
        isr=(HERE, 1),
        partition_epoch=0,
        replicas=(HERE, 1),
        is_new=True,
    )
    return replace(state, **changed)  # type: ignore[arg-type]


def led(
    *states: LeaderAndIsrPartition, topic_id: UUID = ID, broker_epoch: int = EPOCH, controller_epoch: int = 1
) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=(LeaderAndIsrTopic(topic_name="t", topic_id=topic_id, partition_states=states),),
    )


def known(
    index: int = 0,
    *,
    leader: int = 1,
    leader_epoch: int = 0,
    zk_version: int = 0,
    isr: tuple[int, ...] = (1,),
    replicas: tuple[int, ...] = (1, 3),
    offline: tuple[int, ...] = (),
) -> UpdateMetadataPartition:
    return UpdateMetadataPartition(
        partition_index=index,
        controller_epoch=1,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=isr,
        zk_version=zk_version,
        replicas=replicas,
        offline_replicas=offline,
    )


def told(
    *states: UpdateMetadataPartition,
    topic_id: UUID = ID,
    brokers: tuple[int, ...] = (1, 2),
    broker_epoch: int = EPOCH,
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=broker_epoch,
        topic_states=(UpdateMetadataTopic(topic_name="t", topic_id=topic_id, partition_states=states),)
        if states
        else (),
        live_brokers=tuple(
            LiveBroker(
                id=broker,
                endpoints=(
                    LiveEndpoint(port=9092, host=f"b{broker}", listener="PLAINTEXT", security_protocol="PLAINTEXT"),
                ),
            )
            for broker in brokers
        ),
    )


def stopped(*states: StopReplicaPartition, broker_epoch: int = EPOCH) -> StopReplicaRequest:
    return StopReplicaRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=broker_epoch,
        topic_states=(StopReplicaTopic(topic_name="t", partition_states=states),),
    )


def codes(response: LeaderAndIsrResponse) -> list[ErrorCode]:
    return [each.error_code for topic in response.topics for each in topic.partition_errors]


def row(host: Hosting, index: int = 0) -> Partition:
    return host.image.topics["t"].partitions[index]


def test_a_new_replica_gets_a_place_and_its_role() -> None:
    host = a_host()
    host.take_deltas()
    response = host.leader_and_isr(led(a_state(), a_state(1, leader=1)), CONFIGS)
    assert (response.error_code, codes(response)) == (ErrorCode.NONE, [ErrorCode.NONE, ErrorCode.NONE])
    assert (row(host).leader, row(host, 1).leader) == (HERE, 1)
    assert {row(host).slot, row(host, 1).slot} == {0, 1}
    assert host.image.topics["t"].configs == CONFIGS["t"]
    (delta,) = host.take_deltas()
    assert [type(change) for change in delta.changes] == [TopicCreated]


def test_every_delta_leads_from_one_image_to_the_next() -> None:
    host = a_host()
    copy = MetadataImage(version=1, cluster_id="c")
    host.update_metadata(told(known(1)), CONFIGS)
    host.leader_and_isr(led(a_state(2)), CONFIGS)
    host.update_metadata(told(known(0), known(3)), CONFIGS)
    host.stop_replica(stopped(StopReplicaPartition(partition_index=2, leader_epoch=0, delete_partition=True)))
    for delta in host.take_deltas():
        copy = apply(copy, delta)
    assert copy == host.image


def test_a_higher_leader_epoch_moves_the_role_and_keeps_the_place() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state()), CONFIGS)
    before = row(host)
    assert codes(host.leader_and_isr(led(a_state(leader=1, leader_epoch=1, isr=(1,))), CONFIGS)) == [ErrorCode.NONE]
    after = row(host)
    assert (after.leader, after.leader_epoch, after.isr) == (1, 1, (1,))
    assert (after.slot, after.owner, after.log_dir) == (before.slot, before.owner, before.log_dir)


@pytest.mark.parametrize("leader_epoch", [4, 5])
def test_the_same_or_a_lower_leader_epoch_is_refused(leader_epoch: int) -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(leader_epoch=5)), CONFIGS)
    version = host.image.version
    response = host.leader_and_isr(led(a_state(leader=1, leader_epoch=leader_epoch)), CONFIGS)
    assert (response.error_code, codes(response)) == (ErrorCode.NONE, [ErrorCode.STALE_CONTROLLER_EPOCH])
    assert host.image.version == version


def test_an_older_controller_is_refused_on_top_and_for_each_partition() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(), controller_epoch=3), CONFIGS)
    response = host.leader_and_isr(led(a_state(leader_epoch=9), controller_epoch=2), CONFIGS)
    assert (response.error_code, codes(response)) == (
        ErrorCode.STALE_CONTROLLER_EPOCH,
        [ErrorCode.STALE_CONTROLLER_EPOCH],
    )


def test_a_controller_counts_as_old_only_once_a_later_one_has_spoken() -> None:
    """As in Apache Kafka: the epoch in ZooKeeper is not read, whichever of the three requests tells the later one."""
    host = a_host()
    assert host.leader_and_isr(led(a_state(), controller_epoch=7), CONFIGS).error_code == ErrorCode.NONE
    assert host.update_metadata(replace(told(known(0)), controller_epoch=8), CONFIGS).error_code == ErrorCode.NONE
    assert host.leader_and_isr(led(a_state(leader_epoch=9), controller_epoch=7), CONFIGS).error_code == (
        ErrorCode.STALE_CONTROLLER_EPOCH
    )


@pytest.mark.parametrize(
    ("broker_epoch", "code"),
    [
        (EPOCH - 1, ErrorCode.STALE_BROKER_EPOCH),
        (EPOCH, ErrorCode.NONE),
        (EPOCH + 1, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
    ],
)
def test_a_request_to_an_earlier_registration_is_refused(broker_epoch: int, code: ErrorCode) -> None:
    host = a_host()
    response = host.leader_and_isr(led(a_state(), broker_epoch=broker_epoch), CONFIGS)
    assert (response.error_code, codes(response)) == (code, [code])
    assert host.stop_replica(stopped(broker_epoch=broker_epoch)).error_code == code
    metadata = replace(told(), broker_epoch=broker_epoch)
    assert host.update_metadata(metadata, CONFIGS).error_code == code


@pytest.mark.parametrize("name", ["", "..", "../../t", "a/b", "t" * 250])
def test_a_topic_whose_name_is_illegal_gets_no_replica(name: str) -> None:
    """It would be a directory outside the log directory, or none that can be made."""
    host = a_host()
    request = led(a_state())
    topics = (replace(request.topic_states[0], topic_name=name),)
    assert codes(host.leader_and_isr(replace(request, topic_states=topics), {})) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    metadata = told(known())
    topic = replace(metadata.topic_states[0], topic_name=name)
    assert host.unknown_topics(replace(metadata, topic_states=(topic,))) == set()
    host.update_metadata(replace(metadata, topic_states=(topic,)), {})
    assert not host.image.topics


def test_a_partition_without_a_replica_here_is_unknown() -> None:
    host = a_host()
    response = host.leader_and_isr(led(a_state(replicas=(1, 3), leader=1)), CONFIGS)
    assert codes(response) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert "t" not in host.image.topics


def test_another_topic_id_than_that_of_the_replica_is_refused() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state()), CONFIGS)
    response = host.leader_and_isr(led(a_state(leader_epoch=1), topic_id=OTHER_ID), CONFIGS)
    assert codes(response) == [ErrorCode.INCONSISTENT_TOPIC_ID]


def test_a_topic_that_was_made_anew_elsewhere_replaces_the_old_one() -> None:
    host = a_host()
    host.update_metadata(told(known(0), known(1)), CONFIGS)
    request = led(a_state(), topic_id=OTHER_ID)
    assert host.unknown_topics(request) == {"t"}
    assert codes(host.leader_and_isr(request, CONFIGS)) == [ErrorCode.NONE]
    assert (host.image.topics["t"].id, len(host.image.topics["t"].partitions)) == (OTHER_ID, 1)


def test_a_replica_in_a_failed_directory_answers_a_storage_error() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state()), CONFIGS)
    host.directory_failed(row(host).log_dir)
    assert row(host).log_dir == NO_LOG_DIR
    response = host.leader_and_isr(led(a_state(leader_epoch=1)), CONFIGS)
    assert codes(response) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_replica_that_may_be_in_the_offline_directory_does_not_begin_empty() -> None:
    host = a_host(offline=True)
    answered = codes(host.leader_and_isr(led(a_state(is_new=False), a_state(1, is_new=True)), CONFIGS))
    assert answered == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert (row(host).log_dir, row(host, 1).log_dir) == (NO_LOG_DIR, 0)


def test_a_broker_without_room_answers_a_storage_error() -> None:
    host = a_host(slots=1)
    answered = codes(host.leader_and_isr(led(a_state(), a_state(1)), CONFIGS))
    assert answered == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]


def test_metadata_of_partitions_elsewhere_is_taken_over() -> None:
    host = a_host()
    assert host.update_metadata(told(known(0, leader=3), known(1, leader=-1)), CONFIGS).error_code == ErrorCode.NONE
    assert [each.leader for each in host.image.topics["t"].partitions] == [3, NO_LEADER]
    assert {each.slot for each in host.image.topics["t"].partitions} == {NO_SLOT}
    assert list(host.image.brokers) == [1, 2]
    assert host.image.brokers[1].listeners[0].host == "b1"


def test_brokers_that_are_not_named_are_gone() -> None:
    host = a_host()
    host.update_metadata(told(brokers=(1, 2, 3)), {})
    host.update_metadata(told(brokers=(2,)), {})
    assert list(host.image.brokers) == [2]


def test_metadata_never_changes_the_role_of_a_replica_here() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(leader_epoch=3)), CONFIGS)
    for leader, leader_epoch in ((1, 4), (-1, 5)):
        newer = known(leader=leader, leader_epoch=leader_epoch, zk_version=5 + leader_epoch, replicas=(HERE, 1))
        host.update_metadata(told(newer), CONFIGS)
        assert (row(host).leader, row(host).leader_epoch) == (HERE, 3)


def test_metadata_says_who_leads_in_place_of_a_replica_whose_directory_has_failed() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(leader_epoch=3, partition_epoch=5)), CONFIGS)
    host.directory_failed(row(host).log_dir)
    host.update_metadata(told(known(leader=1, leader_epoch=4, zk_version=6, isr=(1,), replicas=(HERE, 1))), CONFIGS)
    assert (row(host).leader, row(host).leader_epoch, row(host).isr, row(host).log_dir) == (1, 4, (1,), NO_LOG_DIR)
    host.update_metadata(told(known(leader=HERE, leader_epoch=3, zk_version=5, replicas=(HERE, 1))), CONFIGS)
    assert (row(host).leader, row(host).leader_epoch) == (1, 4)


def test_metadata_brings_the_newer_isr_of_a_replica_here() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(leader_epoch=3, partition_epoch=5)), CONFIGS)
    host.update_metadata(told(known(leader=HERE, leader_epoch=3, zk_version=6, isr=(HERE,))), CONFIGS)
    assert (row(host).isr, row(host).partition_epoch) == ((HERE,), 6)
    host.update_metadata(told(known(leader=HERE, leader_epoch=3, zk_version=5, isr=(HERE, 1))), CONFIGS)
    assert (row(host).isr, row(host).partition_epoch) == ((HERE,), 6)


def test_a_replica_that_is_not_named_in_a_newer_epoch_was_removed() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(0, leader_epoch=3), a_state(1, leader_epoch=3)), CONFIGS)
    host.take_deltas()
    slot = row(host).slot
    host.update_metadata(told(known(0, leader_epoch=3), known(1, leader_epoch=4, replicas=(HERE, 1))), CONFIGS)
    assert {row(host, index).slot for index in (0, 1)}.isdisjoint({NO_SLOT})
    host.take_deltas()
    host.update_metadata(told(known(0, leader=1, leader_epoch=4, zk_version=9)), CONFIGS)
    (delta,) = host.take_deltas()
    removals = [change for change in delta.changes if isinstance(change, ReplicasRemoved)]
    assert [each.slots for each in removals] == [(slot,)]
    assert (row(host).slot, row(host).leader, row(host).leader_epoch) == (NO_SLOT, 1, 4)


def test_a_replica_without_a_role_stays_whatever_metadata_says() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(leader_epoch=3)), CONFIGS)
    host.session_lost()
    host.update_metadata(told(known(leader_epoch=9)), CONFIGS)
    assert row(host).slot != NO_SLOT


def test_a_reassignment_that_ended_while_the_session_was_lost_removes_the_replica() -> None:
    """Its StopReplica was for the registration before, and the controller does not say it again."""
    host = a_host()
    host.leader_and_isr(led(a_state(leader_epoch=3)), CONFIGS)
    slot = row(host).slot
    host.session_lost()
    host.registered(EPOCH + 10, (PLAINTEXT,), None)
    host.take_deltas()
    host.update_metadata(told(known(leader=1, leader_epoch=3), broker_epoch=EPOCH + 10), CONFIGS)
    assert row(host).slot == slot, "that was so before it had its role"
    host.update_metadata(told(known(leader=1, leader_epoch=4, zk_version=9), broker_epoch=EPOCH + 10), CONFIGS)
    removals = [each for delta in host.take_deltas() for each in delta.changes if isinstance(each, ReplicasRemoved)]
    assert [each.slots for each in removals] == [(slot,)]
    assert (row(host).slot, row(host).leader, row(host).leader_epoch) == (NO_SLOT, 1, 4)


def test_what_was_said_of_a_replica_without_a_role_holds_once_it_is_stopped() -> None:
    """A broker begins while the controller takes its replica away: the state of the partition is said to it once."""
    host = a_host()
    host.leader_and_isr(led(a_state(leader_epoch=3)), CONFIGS)
    host.session_lost()
    host.update_metadata(told(known(leader=1, leader_epoch=4, zk_version=9, isr=(1, 3))), CONFIGS)
    host.stop_replica(stopped(StopReplicaPartition(partition_index=0, leader_epoch=4, delete_partition=True)))
    found = row(host)
    assert (found.slot, found.leader, found.leader_epoch, found.partition_epoch) == (NO_SLOT, 1, 4, 9)
    assert (found.replicas, found.isr) == ((1, 3), (1, 3))


def test_what_was_said_before_a_replica_got_its_newer_role_does_not_hold_again() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(leader_epoch=3)), CONFIGS)
    host.session_lost()
    host.update_metadata(told(known(leader=1, leader_epoch=4, zk_version=9)), CONFIGS)
    host.leader_and_isr(led(a_state(leader=HERE, leader_epoch=5, partition_epoch=10)), CONFIGS)
    host.stop_replica(stopped(StopReplicaPartition(partition_index=0, leader_epoch=5, delete_partition=True)))
    assert (row(host).leader, row(host).leader_epoch, row(host).partition_epoch) == (HERE, 5, 10)


def test_a_topic_that_is_deleted_goes_with_a_replica_that_a_reassignment_had_removed() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(leader_epoch=3)), CONFIGS)
    host.update_metadata(told(known(leader=LEADER_DURING_DELETE, replicas=(1, 3))), CONFIGS)
    assert "t" not in host.image.topics


def test_a_replica_comes_to_a_partition_that_was_known_without_one() -> None:
    host = a_host()
    host.update_metadata(told(known(0), known(1)), CONFIGS)
    host.take_deltas()
    assert codes(host.leader_and_isr(led(a_state(1)), {})) == [ErrorCode.NONE]
    (delta,) = host.take_deltas()
    assert [type(change) for change in delta.changes] == [PartitionsChanged]
    assert (row(host).slot, row(host, 1).slot) == (NO_SLOT, 0)


def test_a_stopped_replica_neither_leads_nor_follows() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state()), CONFIGS)
    response = host.stop_replica(stopped(StopReplicaPartition(partition_index=0, leader_epoch=0)))
    assert [each.error_code for each in response.partition_errors] == [ErrorCode.NONE]
    assert (row(host).leader, row(host).slot) == (NO_LEADER, 0)


def test_an_older_leader_epoch_stops_nothing() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(leader_epoch=3)), CONFIGS)
    response = host.stop_replica(stopped(StopReplicaPartition(partition_index=0, leader_epoch=2)))
    assert [each.error_code for each in response.partition_errors] == [ErrorCode.FENCED_LEADER_EPOCH]
    assert row(host).leader == HERE


def test_a_moved_replica_is_deleted_and_the_topic_stays() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(), a_state(1)), CONFIGS)
    host.take_deltas()
    host.stop_replica(stopped(StopReplicaPartition(partition_index=0, leader_epoch=0, delete_partition=True)))
    (delta,) = host.take_deltas()
    (removed,) = delta.changes
    assert isinstance(removed, ReplicasRemoved)
    assert removed.slots == (0,)
    assert (row(host).slot, row(host, 1).slot) == (NO_SLOT, 1)


def test_a_slot_is_used_again_when_all_have_passed_its_removal() -> None:
    host = a_host(slots=1)
    host.leader_and_isr(led(a_state()), CONFIGS)
    host.stop_replica(stopped(StopReplicaPartition(partition_index=0, leader_epoch=0, delete_partition=True)))
    assert codes(host.leader_and_isr(led(a_state(1)), CONFIGS)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    host.acknowledged(host.image.version)
    assert codes(host.leader_and_isr(led(a_state(1)), CONFIGS)) == [ErrorCode.NONE]


def test_a_deleted_topic_goes_with_its_last_replica() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(), a_state(1)), CONFIGS)
    gone = known(leader=LEADER_DURING_DELETE, replicas=(HERE, 1))
    host.update_metadata(told(gone, replace(gone, partition_index=1)), {})
    assert "t" in host.image.topics
    for index in (0, 1):
        state = StopReplicaPartition(partition_index=index, leader_epoch=EPOCH_DURING_DELETE, delete_partition=True)
        host.stop_replica(stopped(state))
    assert "t" not in host.image.topics
    assert ID not in host.image.names_by_id


def test_a_deleted_topic_without_replicas_here_goes_at_once() -> None:
    host = a_host()
    host.update_metadata(told(known(0), known(1)), CONFIGS)
    host.take_deltas()
    host.update_metadata(told(known(0, leader=LEADER_DURING_DELETE), known(1, leader=LEADER_DURING_DELETE)), {})
    (delta,) = host.take_deltas()
    assert [type(change) for change in delta.changes] == [TopicDeleted]


def test_stopping_an_unknown_partition_is_no_error() -> None:
    response = a_host().stop_replica(stopped(StopReplicaPartition(partition_index=0, leader_epoch=0)))
    assert [each.error_code for each in response.partition_errors] == [ErrorCode.NONE]


def test_configurations_that_did_not_change_are_not_published() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state()), CONFIGS)
    version = host.image.version
    host.topic_config_changed("t", CONFIGS["t"])
    host.topic_config_changed("unknown", {})
    host.broker_config_changed("", {})
    assert host.image.version == version
    host.topic_config_changed("t", {})
    host.broker_config_changed("", {"log.retention.ms": "1"})
    assert (host.image.topics["t"].configs, host.image.version) == ({}, version + 2)


def test_a_new_registration_is_the_one_that_counts() -> None:
    host = a_host()
    host.registered(EPOCH + 10, (PLAINTEXT,), "rack")
    assert host.leader_and_isr(led(a_state()), CONFIGS).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert (host.image.brokers[HERE].epoch, host.image.brokers[HERE].rack) == (EPOCH + 10, "rack")


def test_after_the_session_was_lost_roles_are_given_again_in_their_old_epochs() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state(leader_epoch=3)), CONFIGS)
    before = row(host)
    host.session_lost()
    assert row(host).leader == NO_LEADER
    assert codes(host.leader_and_isr(led(a_state(leader_epoch=3)), CONFIGS)) == [ErrorCode.NONE]
    assert row(host) == before


def test_replicas_are_heard_of_though_no_epoch_says_so() -> None:
    """A reassignment ends with the topic's node: who read that before has the new state with the old replicas."""
    host = a_host()
    host.leader_and_isr(led(a_state(0, replicas=(HERE, 1, 3), leader_epoch=1, partition_epoch=4)), CONFIGS)
    for replicas, epoch in (((HERE, 1), 4), ((HERE, 1, 3), 3)):
        state = known(0, leader=HERE, leader_epoch=1, zk_version=epoch, isr=(HERE, 1), replicas=replicas)
        host.update_metadata(told(state), CONFIGS)
        assert row(host).replicas == (HERE, 1), "an older one changes nothing"


def test_offline_replicas_of_partitions_elsewhere_are_known_while_their_brokers_live() -> None:
    host = a_host()
    host.update_metadata(told(known(replicas=(1, 3, 4), offline=(3, 4)), brokers=(1, 2, 3)), CONFIGS)
    assert row(host).offline == (3,), "a broker that comes back is offline no more, and nobody says so"
    host.update_metadata(told(known(replicas=(1, 3, 4)), brokers=(1, 2, 3)), CONFIGS)
    assert row(host).offline == ()


def test_offline_replicas_of_a_partition_here_come_with_its_metadata() -> None:
    host = a_host()
    host.leader_and_isr(led(a_state()), CONFIGS)
    state = known(leader=HERE, isr=(HERE, 1), replicas=(HERE, 1), offline=(1,))
    host.update_metadata(told(state), CONFIGS)
    assert row(host).offline == (1,)
    host.leader_and_isr(led(a_state(leader_epoch=1, isr=(HERE,))), CONFIGS)
    assert (row(host).offline, row(host).isr) == ((1,), (HERE,))
    before = row(host)
    older = known(leader=HERE, isr=(HERE, 1), replicas=(HERE, 1))
    host.update_metadata(told(older), CONFIGS)
    assert row(host) == before
    host.update_metadata(told(replace(older, leader_epoch=1, isr=(HERE,))), CONFIGS)
    assert row(host) == structs.replace(before, offline=())


@pytest.mark.parametrize("index", [-1, PARTITIONS_OF_TOPIC, 2**31 - 1])
def test_an_index_that_no_partition_can_have_makes_no_rows(index: int) -> None:
    """There is a row for each index below the largest: one request of 200 bytes took gigabytes."""
    host = a_host()
    host.update_metadata(told(known(index)), {})
    response = host.leader_and_isr(led(a_state(index), a_state(0)), {})
    assert codes(response) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    assert len(host.image.topics["t"].partitions) == 1
