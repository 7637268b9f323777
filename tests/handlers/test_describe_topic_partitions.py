"""DescribeTopicPartitions, compared with what Apache Kafka 4.3.0 was seen to answer."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafkad.core.controller.image import NO_LOG_DIR
from kafkad.handlers import describe_topic_partitions
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.primitives import MalformedRequest
from tests.contexts import a_context
from tests.handlers.kio_calls import KioApi
from tests.handlers.views import a_broker, a_partition, a_topic, a_view

API = KioApi("describe_topic_partitions", 0)
Cursor = tuple[str, int]


def partitions(count: int) -> list[Any]:
    return [a_partition(index, index, leader_epoch=index) for index in range(count)]


def ask(view: BrokerView, *names: str, limit: int = 2000, cursor: Cursor | None = None) -> Any:
    body = API.request(
        topics=tuple(API.part("TopicRequest", name=name) for name in names),
        response_partition_limit=limit,
        cursor=None if cursor is None else API.part("Cursor", topic_name=cursor[0], partition_index=cursor[1]),
    )
    return API.read(describe_topic_partitions.handle(body, a_context(0), view))


def told(response: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, [row.partition_index for row in topic.partitions]) for topic in response.topics]


def following(response: Any) -> Cursor | None:
    cursor = response.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_topics_are_told_in_the_order_of_their_names() -> None:
    view = a_view(a_topic("b", 2), a_topic("__consumer_offsets", 3), a_topic("a", 1, *partitions(2)))

    response = ask(view)

    assert told(response) == [("__consumer_offsets", [0]), ("a", [0, 1]), ("b", [0])]
    internal, topic, _ = response.topics
    assert (internal.is_internal, topic.is_internal) == (True, False)
    assert (topic.error_code, topic.topic_id, topic.topic_authorized_operations) == (ErrorCode.none, UUID(int=1), 3576)
    row = topic.partitions[1]
    assert (row.error_code, row.leader_id, row.leader_epoch) == (ErrorCode.none, 1, 1)
    assert (row.replica_nodes, row.isr_nodes, row.offline_replicas) == ((1,), (1,), ())
    assert (row.eligible_leader_replicas, row.last_known_elr) == ((), ())
    assert following(response) is None


def test_a_leader_without_the_listener_of_the_client_is_none_for_it() -> None:
    topic = a_topic("a", 1, a_partition(leader=2, replicas=(2, 1), offline=(1,)))
    view = a_view(topic, brokers=(a_broker(1), a_broker(2, listener_name="OTHER")))

    (row,) = ask(view).topics[0].partitions

    assert (row.error_code, row.leader_id, row.replica_nodes) == (ErrorCode.none, -1, (2, 1))
    assert row.offline_replicas == (1,)


def test_topics_that_are_not_there_have_an_error_in_their_place() -> None:
    response = ask(a_view(a_topic("m", 1)), "z", "m", "bad/name", "m")
    assert [(topic.name, topic.error_code, topic.topic_id) for topic in response.topics] == [
        ("bad/name", ErrorCode.invalid_topic_exception, None),
        ("m", ErrorCode.none, UUID(int=1)),
        ("z", ErrorCode.unknown_topic_or_partition, None),
    ]


def test_answers_go_on_where_the_cursor_says() -> None:
    view = a_view(a_topic("a", 1, *partitions(3)), a_topic("b", 2, *partitions(2)), a_topic("c", 3))
    seen: list[tuple[str, list[int]]] = []
    cursors: list[Cursor | None] = []
    cursor: Cursor | None = None
    while not cursors or cursor is not None:
        response = ask(view, limit=2, cursor=cursor)
        seen += told(response)
        cursor = following(response)
        cursors.append(cursor)
    assert seen == [("a", [0, 1]), ("a", [2]), ("b", [0]), ("b", [1]), ("c", [0])]
    assert cursors == [("a", 2), ("b", 1), None]


def test_the_cursor_names_the_next_topic_even_when_it_does_not_exist() -> None:
    response = ask(a_view(a_topic("t1", 1)), "a", "t1", "u", limit=1)
    assert told(response) == [("a", []), ("t1", [0])]
    assert following(response) == ("u", 0)


def test_the_brokers_own_limit_holds_too_and_one_partition_is_always_told() -> None:
    view = a_view(a_topic("a", 1, *partitions(3)))
    view.max_partitions_described = 2
    assert told(ask(view)) == [("a", [0, 1])]
    assert told(ask(view, limit=0)) == [("a", [0])]


def test_a_cursor_past_the_end_of_its_topic_costs_an_empty_entry() -> None:
    view = a_view(a_topic("a", 1), a_topic("b", 2))
    assert told(ask(view, cursor=("a", 5))) == [("a", []), ("b", [0])]


@pytest.mark.parametrize("cursor", [("a", -1), ("other", 0), ("", 0)])
def test_a_cursor_that_can_not_be_is_refused(cursor: Cursor) -> None:
    response = ask(a_view(a_topic("a", 1)), "a", cursor=cursor)
    assert [(topic.name, topic.error_code, topic.partitions) for topic in response.topics] == [
        ("a", ErrorCode.invalid_request, ())
    ]
    assert response.topics[0].topic_authorized_operations == -(2**31)


def test_a_partition_on_a_failed_disk_has_no_leader() -> None:
    view = a_view(a_topic("a", 1, a_partition(log_dir=NO_LOG_DIR, leader=-1, leader_epoch=3)))
    (row,) = ask(view).topics[0].partitions
    assert (row.error_code, row.leader_id, row.leader_epoch, row.offline_replicas) == (ErrorCode.none, -1, 3, (1,))


def test_a_request_cut_off_anywhere_is_malformed() -> None:
    body = API.request(
        topics=(API.part("TopicRequest", name="a"),),
        response_partition_limit=1,
        cursor=API.part("Cursor", topic_name="a", partition_index=0),
    )
    for end in range(len(body)):
        with pytest.raises(MalformedRequest):
            describe_topic_partitions.handle(body[:end], a_context(0), a_view())
