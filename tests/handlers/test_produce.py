"""A Produce becomes parts for owners, and their answers one reply."""

from uuid import UUID

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.handlers.produce import MAX_PARTITIONS_PER_PART, ProduceInFlight, ProducePart, plan
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.messages.produce import ProduceRequest
from kafkad.wire.processes.descriptors import short_topic_id
from tests.contexts import a_context
from tests.handlers.kio_calls import KioApi
from tests.handlers.views import a_partition, a_topic, a_view

FRAME = 5000
"""Where the request lies in the arena."""
Rows = list[tuple[int, int, int]]


def planned(
    view: BrokerView,
    *topics: tuple[str | bytes, Rows],
    acks: int = 1,
    transactional_id: str | None = None,
    version: int = 9,
) -> tuple[ProduceInFlight, list[ProducePart]]:
    request = ProduceRequest(acks, 1000, transactional_id, list(topics))
    produce = ProduceInFlight(request, a_context(version), 1)
    return produce, plan(request, produce, FRAME, view.routing)


def errors(produce: ProduceInFlight) -> list[tuple[str | bytes, int, int]]:
    return [(topic, row.partition, row.error) for topic, rows in produce.topics for row in rows]


def two_workers() -> BrokerView:
    return a_view(
        a_topic("a", 1, a_partition(0, 10, owner=0), a_partition(1, 11, owner=1)),
        a_topic("b", 2, a_partition(0, 20, owner=0)),
    )


def test_each_owner_gets_the_places_of_its_batches_in_the_arena() -> None:
    view = two_workers()
    a, b = (short_topic_id(view.image.topics[name].id.bytes) for name in ("a", "b"))
    produce, parts = planned(view, ("a", [(0, 30, 100), (1, 140, 50)]), ("b", [(0, 200, 7)]))
    assert {part.worker: part.slices for part in parts} == {
        0: [(10, a, FRAME + 30, 100), (20, b, FRAME + 200, 7)],
        1: [(11, a, FRAME + 140, 50)],
    }
    assert produce.pending_parts == 2


@pytest.mark.parametrize(
    "topics",
    [
        [("a", [(0, 30, 100), (1, 140, 50), (0, 200, 7)])],
        [("a", [(0, 30, 100), (1, 140, 50)]), ("b", [(0, 180, 9)]), ("a", [(0, 200, 7)])],
    ],
)
def test_of_a_partition_named_twice_the_last_records_count(topics: list[tuple[str | bytes, Rows]]) -> None:
    """As in Apache Kafka, whose broker keeps them in a map: nothing of the earlier ones is written or answered."""
    view = two_workers()
    short_id = short_topic_id(view.image.topics["a"].id.bytes)
    produce, parts = planned(view, *topics)
    slices = [piece for part in parts for piece in part.slices if piece[1] == short_id]
    assert sorted(slices) == [(10, short_id, FRAME + 200, 7), (11, short_id, FRAME + 140, 50)]
    topic, rows = produce.topics[0]
    assert (topic, [row.partition for row in rows]) == ("a", [0, 1])
    assert len(produce.topics) == len({topic for topic, _ in topics})


@pytest.mark.parametrize("version", range(3, 14))
def test_the_reply_has_the_answers_of_all_owners_in_the_order_of_the_request(version: int) -> None:
    def topic(name: str) -> str | bytes:
        return view.image.topics[name].id.bytes if version >= 13 else name

    view = two_workers()
    produce, parts = planned(view, (topic("a"), [(1, 0, 5), (0, 5, 5)]), (topic("b"), [(0, 10, 5)]), version=version)
    by_worker = {part.worker: part for part in parts}

    assert not by_worker[0].complete([(0, 70, -1, 3), (2, -1, -1, -1)])
    assert by_worker[1].complete([(0, 90, -1, 4)])

    response = KioApi("produce", version).read(produce.reply(0))
    rows = [
        (row.index, row.error_code.value, row.base_offset) for t in response.responses for row in t.partition_responses
    ]
    assert rows == [(1, 0, 90), (0, 0, 70), (0, 2, -1)]
    assert produce.has_error


def test_what_a_lost_worker_was_asked_fails() -> None:
    produce, parts = planned(two_workers(), ("a", [(0, 0, 5), (1, 5, 5)]))
    by_worker = {part.worker: part for part in parts}
    assert not by_worker[1].fail(ErrorCode.REQUEST_TIMED_OUT)
    assert by_worker[0].complete([(0, 1, -1, 0)])
    assert errors(produce) == [("a", 0, 0), ("a", 1, ErrorCode.REQUEST_TIMED_OUT)]


def test_what_nobody_can_be_asked_has_its_error_at_once() -> None:
    produce, parts = planned(
        two_workers(), ("none", [(0, 0, 5)]), ("a", [(2, 0, 5), (-1, 0, 5), (0, 0, 0), (1, 0, -1)])
    )
    assert parts == []
    assert errors(produce) == [
        ("none", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", 0, ErrorCode.INVALID_RECORD),
        ("a", 1, ErrorCode.INVALID_RECORD),
    ]


def test_an_id_that_nobody_knows_is_another_error() -> None:
    unknown = UUID(int=99).bytes
    produce, _ = planned(two_workers(), (unknown, [(0, 0, 5)]), version=13)
    assert errors(produce) == [(unknown, 0, ErrorCode.UNKNOWN_TOPIC_ID)]


def test_a_partition_that_is_not_here_is_somebody_elses() -> None:
    view = a_view(a_topic("a", 1, a_partition(0, -1, owner=-1)))
    produce, parts = planned(view, ("a", [(0, 0, 5)]))
    assert (parts, errors(produce)) == ([], [("a", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)])


def test_internal_topics_are_not_written_by_clients() -> None:
    view = a_view(a_topic("__consumer_offsets", 1))
    view.routing.by_name["__consumer_offsets"].is_internal = True
    produce, parts = planned(view, ("__consumer_offsets", [(0, 0, 5)]))
    assert (parts, errors(produce)) == ([], [("__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION)])


@pytest.mark.parametrize("acks", [2, -2])
def test_wrong_acks_are_the_error_of_each_partition_that_has_no_other(acks: int) -> None:
    produce, parts = planned(
        two_workers(), ("a", [(0, 0, 5), (1, 0, 0), (9, 0, 5)]), ("nowhere", [(0, 0, 5)]), acks=acks
    )
    assert (parts, errors(produce)) == (
        [],
        [
            ("a", 0, ErrorCode.INVALID_REQUIRED_ACKS),
            ("a", 1, ErrorCode.INVALID_RECORD),
            ("a", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ],
    )


def test_a_share_is_never_larger_than_a_message() -> None:
    count = MAX_PARTITIONS_PER_PART + 1
    view = a_view(a_topic("a", 1, *(a_partition(number, number, owner=0) for number in range(count))))
    produce, parts = planned(view, ("a", [(number, 5 * number, 5) for number in range(count)]))
    assert [len(part.slices) for part in parts] == [MAX_PARTITIONS_PER_PART, 1]
    assert produce.pending_parts == 2
