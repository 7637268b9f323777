"""DescribeProducers, compared with what Apache Kafka 4.3.0 was seen to answer."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafkad.core.errors import ErrorCode as Code
from kafkad.handlers import describe_producers
from kafkad.handlers.describe_producers import PendingDescribeProducers
from kafkad.wire.messages.describe_producers import ProducerRow, pack_producers
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.processes.descriptors import Producers, ProducersRequest, short_topic_id
from tests.contexts import a_context
from tests.handlers.kio_calls import KioApi
from tests.handlers.views import a_partition, a_topic, a_view

API = KioApi("describe_producers", 0)


def asked(*topics: tuple[str, tuple[int, ...]]) -> memoryview:
    return API.request(
        topics=tuple(API.part("TopicRequest", name=name, partition_indexes=rows) for name, rows in topics)
    )


def answers(pending: PendingDescribeProducers) -> list[tuple[str, list[Any]]]:
    return [(topic.name, list(topic.partitions)) for topic in API.read(pending.body()).topics]


def test_each_worker_tells_the_producers_of_what_it_owns() -> None:
    topic = a_topic("a", 1, a_partition(0, 10, owner=0), a_partition(1, 11, owner=1), a_partition(2, 12, owner=0))
    pending = describe_producers.pending_request(asked(("a", (2, 0, 1))), a_context(0), a_view(topic))
    short_id = short_topic_id(topic.id.bytes)

    assert sorted(pending.workers()) == [0, 1]
    assert pending.message(0, 5, 99) == ProducersRequest(5, [(12, short_id), (10, short_id)])
    assert pending.message(1, 6, 99) == ProducersRequest(6, [(11, short_id)])

    packed = pack_producers([ProducerRow(1000, 2, 30, 1_700_000_000_000, -1, 40)])
    pending.complete(0, Producers(5, [(0, 1, packed), (56, 0, b"")]))
    pending.fail(1)

    ((_, (second, first, lost)),) = answers(pending)
    assert [row.partition_index for row in (second, first, lost)] == [2, 0, 1]
    (producer,) = second.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (1000, 2, 30)
    assert (producer.last_timestamp, producer.coordinator_epoch, producer.current_txn_start_offset) == (
        1_700_000_000_000,
        -1,
        40,
    )
    assert (first.error_code, first.active_producers) == (ErrorCode.kafka_storage_error, ())
    assert (lost.error_code, lost.error_message) == (ErrorCode.not_leader_or_follower, None)


def test_what_is_wrong_with_a_topic_is_said_in_words() -> None:
    body = asked(("none", (0,)), ("bad/name", (0,)), ("a", (9,)))
    pending = describe_producers.pending_request(body, a_context(0), a_view(a_topic("a", 1)))
    assert pending.workers() == []
    assert [(name, row.error_code, row.error_message) for name, (row,) in answers(pending)] == [
        ("none", ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."),
        (
            "bad/name",
            ErrorCode.invalid_topic_exception,
            "Topic name is invalid: 'bad/name' contains one or more characters other than ASCII alphanumerics,"
            " '.', '_' and '-'",
        ),
        ("a", ErrorCode.unknown_topic_or_partition, None),
    ]


def test_a_partition_named_several_times_is_asked_about_and_answered_once() -> None:
    view = a_view(a_topic("a", 1, a_partition(0, 10), a_partition(1, 11)))
    body = asked(("a", (0, 0, 9, 9)), ("a", (0, 1, 9)))
    pending = describe_producers.pending_request(body, a_context(0), view)
    message = pending.message(0, 1, 99)
    assert isinstance(message, ProducersRequest)
    assert [slot for slot, _short_id in message.partitions] == [10, 11]
    pending.complete(0, Producers(1, [(Code.NONE, 0, b""), (Code.NONE, 0, b"")]))
    rows = [(name, [row.partition_index for row in partitions]) for name, partitions in answers(pending)]
    assert rows == [("a", [0, 9]), ("a", [1])]


def test_a_request_cut_off_anywhere_is_malformed() -> None:
    body = asked(("a", (0,)))
    for end in range(len(body)):
        with pytest.raises(MalformedRequest):
            describe_producers.pending_request(body[:end], a_context(0), a_view())


def test_many_producers_are_all_told() -> None:
    view = a_view(a_topic("a", 1, a_partition(0, 10)))
    pending = describe_producers.pending_request(asked(("a", (0,))), a_context(0), view)
    rows = [ProducerRow(number, number % 7, number - 1, 1_700_000_000_000 + number, -1, -1) for number in range(300)]
    pending.complete(0, Producers(1, [(0, len(rows), pack_producers(rows))]))
    ((_, (partition,)),) = answers(pending)
    assert [row.producer_id for row in partition.active_producers] == list(range(300))
    assert [row.last_sequence for row in partition.active_producers] == list(range(-1, 299))
