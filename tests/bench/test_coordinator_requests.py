"""The benchmark's requests to coordinators: kio, made from Kafka's schemas, reads them as they were meant."""

from uuid import UUID

from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.end_txn.v3.request import EndTxnRequest
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.leave_group.v5.request import LeaveGroupRequest
from kio.schema.offset_commit.v8.request import OffsetCommitRequest
from kio.schema.produce.v9.request import ProduceRequest
from kio.schema.sync_group.v5.request import SyncGroupRequest

from bench import group_requests, transaction_requests
from bench.transaction_requests import Producer
from kafkad.core.groups.embedded_protocol import read_subscription
from kafkad.core.log.records.batch import has_valid_crc, read_header
from tests.bench.test_requests import decoded

PRODUCER = Producer(transactional_id="x", producer_id=42, epoch=3)


def test_a_coordinator_is_asked_for_by_key_and_kind() -> None:
    request = decoded(group_requests.find_coordinator("x", group_requests.TRANSACTION), FindCoordinatorRequest)
    assert (request.key_type, request.coordinator_keys) == (1, ("x",))


def test_a_member_joins_with_its_subscription() -> None:
    metadata = group_requests.subscription("t", b"second")
    request = decoded(group_requests.join_group("g", "m", metadata), JoinGroupRequest)
    (protocol,) = request.protocols
    assert (request.group_id, request.member_id, request.protocol_type) == ("g", "m", "consumer")
    assert (protocol.name, protocol.metadata) == ("range", metadata)
    assert list(read_subscription(metadata).topics) == ["t"]


def test_the_leader_syncs_with_an_assignment_for_each_member() -> None:
    parts = {name: group_requests.assignment("t", at) for at, name in enumerate("ab")}
    request = decoded(group_requests.sync_group("g", 7, "a", parts), SyncGroupRequest)
    assert (request.generation_id, request.member_id, request.protocol_name) == (7, "a", "range")
    assert {each.member_id: each.assignment for each in request.assignments} == parts


def test_all_members_leave_at_once() -> None:
    request = decoded(group_requests.leave_group("g", ["a", "b"]), LeaveGroupRequest)
    assert (request.group_id, [each.member_id for each in request.members]) == ("g", ["a", "b"])


def test_a_member_of_the_new_protocol_joins_with_nothing_owned() -> None:
    request = decoded(group_requests.consumer_join("g", "m", "t"), ConsumerGroupHeartbeatRequest)
    assert (request.member_epoch, request.subscribed_topic_names, request.topic_partitions) == (0, ("t",), ())


def test_a_later_heartbeat_says_what_is_owned_or_that_nothing_changed() -> None:
    topic_id = UUID(int=5)
    owning = group_requests.consumer_heartbeat("g", "m", 9, {topic_id.bytes: [1, 2]})
    request = decoded(owning, ConsumerGroupHeartbeatRequest)
    (topic,) = request.topic_partitions
    assert (request.member_epoch, topic.topic_id, topic.partitions) == (9, topic_id, (1, 2))
    plain = decoded(group_requests.consumer_heartbeat("g", "m", 9, None), ConsumerGroupHeartbeatRequest)
    assert (plain.subscribed_topic_names, plain.topic_partitions) == (None, None)


def test_a_commit_of_one_partition_is_nobodys_in_particular() -> None:
    request = decoded(group_requests.offset_commit("g", "t", 4, 1_000), OffsetCommitRequest)
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
    assert (topic.name, partition.partition_index, partition.committed_offset) == ("t", 4, 1_000)


def test_a_producer_asks_for_its_id() -> None:
    request = decoded(transaction_requests.init_producer_id("x"), InitProducerIdRequest)
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("x", -1, -1)


def test_partitions_are_added_and_the_transaction_is_committed() -> None:
    added = decoded(transaction_requests.add_partition(PRODUCER, "t", 2), AddPartitionsToTxnRequest)
    (topic,) = added.v3_and_below_topics
    assert (added.v3_and_below_producer_id, added.v3_and_below_producer_epoch) == (42, 3)
    assert (topic.name, topic.partitions) == ("t", (2,))
    ended = decoded(transaction_requests.end(PRODUCER), EndTxnRequest)
    assert (ended.transactional_id, ended.producer_id, ended.committed) == ("x", 42, True)


def test_a_transactional_batch_is_whole_and_says_whose_it_is() -> None:
    batch = transaction_requests.transactional_batch(PRODUCER, 500, 10, 100)
    header = read_header(batch)
    assert has_valid_crc(memoryview(batch), 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (42, 3, 500)
    assert header.is_transactional
    request = decoded(transaction_requests.produce(PRODUCER, "t", {0: batch}), ProduceRequest)
    (topic,) = request.topic_data
    assert (request.transactional_id, request.acks, topic.partition_data[0].records) == ("x", -1, batch)
