"""Markers are requested until each partition has its own or is gone; the successor of a dead worker is asked again."""

from random import Random

from kafkad.core.coordinator.marking import (
    CONSTANT_RETRIES,
    HERE,
    MAX_RETRY_MS,
    RETRY_MS,
    MarkerRequest,
    MarkersAdvanced,
    MarkersComplete,
    MarkerWriter,
    Marking,
)
from kafkad.core.coordinator.shard import TxnMarkersToSend
from kafkad.core.errors import ErrorCode
from tests.amounts import random_seeds

SOURCE = 100


class Cluster:
    """Where partitions are; None once deleted."""

    def __init__(self) -> None:
        self.places: dict[tuple[str, int], MarkerWriter | None] = {}

    def add(self, topic: str, index: int, worker: int, slot: int) -> None:
        self.places[topic, index] = MarkerWriter(worker, slot, slot * 10)

    def find(self, topic: str, index: int) -> MarkerWriter | None:
        return self.places.get((topic, index))


def two_workers() -> Cluster:
    cluster = Cluster()
    cluster.add("a", 0, 0, 1)
    cluster.add("a", 1, 1, 2)
    cluster.add("b", 0, 0, 3)
    return cluster


def requested(name: str = "t", epoch: int = 4, *partitions: tuple[str, int]) -> TxnMarkersToSend:
    return TxnMarkersToSend(name, 7, epoch, 1, True, frozenset(partitions or (("a", 0), ("a", 1), ("b", 0))))


def slots(requests: list[MarkerRequest]) -> dict[int, list[tuple[int, int]]]:
    return {request.worker: request.slots for request in requests}


def test_each_worker_gets_one_message_with_its_partitions() -> None:
    marking = Marking(two_workers().find)
    marking.order(SOURCE, requested())
    requests = marking.take_requests(0)
    assert slots(requests) == {0: [(1, 10), (3, 30)], 1: [(2, 20)]}
    assert marking.take_requests(0) == []


def test_an_order_is_finished_with_its_last_marker_and_told_once() -> None:
    marking = Marking(two_workers().find)
    marking.order(SOURCE, requested())
    first, second = marking.take_requests(0)
    marking.response_received(first.marker_id, [0] * len(first.slots), 0)
    assert marking.take_finished() == []
    assert marking.take_advanced() == [MarkersAdvanced(SOURCE, "t", 4, frozenset({("a", 0), ("b", 0)}))]
    marking.response_received(second.marker_id, [0] * len(second.slots), 0)
    assert marking.take_advanced() == []
    assert marking.take_finished() == [MarkersComplete(SOURCE, "t", 4)]
    assert marking.take_finished() == []
    assert len(marking) == 0


def test_partitions_that_another_broker_leads_are_asked_of_it_by_name() -> None:
    cluster = two_workers()
    cluster.places["b", 0] = MarkerWriter(-1, -1, 30, 5)
    cluster.places["a", 1] = MarkerWriter(-1, 2, 20, 5)
    marking = Marking(cluster.find)
    marking.order(SOURCE, requested())
    here, there = marking.take_requests(0)
    assert (here.broker, here.slots) == (HERE, [(1, 10)])
    assert (there.broker, there.partitions) == (5, [("a", 1), ("b", 0)])
    marking.worker_lost(-1, 0)
    marking.response_received(there.marker_id, [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE], 0)
    assert [request.partitions for request in marking.take_requests(RETRY_MS)] == [[("a", 1)]]


def test_a_request_that_was_lost_is_sent_again_wherever_the_leader_is_then() -> None:
    cluster = two_workers()
    cluster.places["a", 0] = MarkerWriter(-1, -1, 10, 5)
    marking = Marking(cluster.find)
    marking.order(SOURCE, requested("t", 4, ("a", 0)))
    (request,) = marking.take_requests(0)
    marking.lost(request.marker_id, 0)
    marking.response_received(request.marker_id, [0], 0)
    assert marking.take_finished() == [], "an answer after that counts no more"
    cluster.add("a", 0, 1, 1)
    (request,) = marking.take_requests(RETRY_MS)
    assert (request.broker, request.worker) == (HERE, 1)
    marking.response_received(request.marker_id, [0], RETRY_MS)
    assert marking.take_finished() == [MarkersComplete(SOURCE, "t", 4)]


def test_an_error_that_nobody_expects_is_no_marker() -> None:
    marking = Marking(two_workers().find)
    marking.order(SOURCE, requested("t", 4, ("a", 0)))
    (request,) = marking.take_requests(0)
    marking.response_received(request.marker_id, [ErrorCode.CLUSTER_AUTHORIZATION_FAILED], 0)
    assert marking.take_finished() == []
    assert len(marking.take_requests(RETRY_MS)) == 1


def test_only_what_failed_is_tried_again_and_not_at_once() -> None:
    marking = Marking(two_workers().find)
    marking.order(SOURCE, requested())
    first, second = marking.take_requests(0)
    marking.response_received(first.marker_id, [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER], 0)
    marking.response_received(second.marker_id, [0], 0)
    assert marking.take_requests(RETRY_MS - 1) == []
    assert slots(marking.take_requests(RETRY_MS)) == {0: [(3, 30)]}


def test_a_new_order_does_not_wait_for_the_tries_of_another() -> None:
    marking = Marking(two_workers().find)
    marking.order(SOURCE, requested("t", 4, ("a", 0)))
    (request,) = marking.take_requests(0)
    marking.response_received(request.marker_id, [ErrorCode.KAFKA_STORAGE_ERROR], 0)
    marking.order(SOURCE, requested("u", 1, ("a", 1)))
    assert slots(marking.take_requests(0)) == {1: [(2, 20)]}


def test_what_a_dead_worker_was_asked_is_asked_again_where_it_is_then() -> None:
    cluster = two_workers()
    marking = Marking(cluster.find)
    marking.order(SOURCE, requested())
    first, second = marking.take_requests(0)
    marking.worker_lost(0, 0)
    cluster.add("a", 0, 1, 5)
    requests = marking.take_requests(RETRY_MS)
    assert slots(requests) == {1: [(5, 50)], 0: [(3, 30)]}
    marking.response_received(first.marker_id, [0, 0], 0)
    assert marking.take_finished() == [], "an answer of the dead counts no more"
    for request in (second, *requests):
        marking.response_received(request.marker_id, [0] * len(request.slots), 0)
    assert len(marking.take_finished()) == 1


def test_partitions_of_deleted_topics_need_no_marker() -> None:
    cluster = two_workers()
    marking = Marking(cluster.find)
    marking.order(SOURCE, requested("t", 4, ("a", 0), ("gone", 0)))
    (request,) = marking.take_requests(0)
    cluster.places["a", 0] = None
    marking.response_received(request.marker_id, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], 0)
    assert marking.take_requests(RETRY_MS) == []
    assert marking.take_finished() == [MarkersComplete(SOURCE, "t", 4)]


def test_a_transaction_without_partitions_is_finished_at_once() -> None:
    marking = Marking(two_workers().find)
    marking.order(SOURCE, TxnMarkersToSend("t", 7, 4, 1, False, frozenset()))
    assert marking.take_requests(0) == []
    assert marking.take_finished() == [MarkersComplete(SOURCE, "t", 4)]


def test_a_partition_that_knows_a_newer_epoch_is_no_reason_to_hang() -> None:
    marking = Marking(two_workers().find)
    marking.order(SOURCE, requested("t", 4, ("a", 0)))
    (request,) = marking.take_requests(0)
    marking.response_received(request.marker_id, [ErrorCode.INVALID_PRODUCER_EPOCH], 0)
    assert marking.take_finished() == [MarkersComplete(SOURCE, "t", 4)]
    assert marking.rejected == ["transaction marker of t rejected by a-0: INVALID_PRODUCER_EPOCH"]


def test_orders_of_a_shard_that_left_are_forgotten() -> None:
    marking = Marking(two_workers().find)
    marking.order(SOURCE, requested("t", 4, ("a", 0)))
    marking.order(SOURCE + 1, requested("t", 9, ("a", 1)))
    requests = marking.take_requests(0)
    marking.forget(SOURCE)
    for request in requests:
        marking.response_received(request.marker_id, [0], 0)
    assert marking.take_finished() == [MarkersComplete(SOURCE + 1, "t", 9)]


def test_a_partition_that_stays_away_is_asked_less_and_less_often() -> None:
    marking = Marking(two_workers().find)
    marking.order(SOURCE, requested("t", 4, ("a", 0)))
    now_ms, pauses = 0, []
    for _ in range(CONSTANT_RETRIES + 7):
        (request,) = marking.take_requests(now_ms)
        marking.response_received(request.marker_id, [ErrorCode.KAFKA_STORAGE_ERROR], now_ms)
        assert marking.retry_at_ms is not None
        pauses.append(marking.retry_at_ms - now_ms)
        now_ms = marking.retry_at_ms
    assert pauses == [100] * CONSTANT_RETRIES + [100, 200, 400, 800, 1600, 3200, 3200]
    (request,) = marking.take_requests(now_ms)
    marking.response_received(request.marker_id, [0], now_ms)
    marking.order(SOURCE, requested("u", 1, ("a", 0)))
    (request,) = marking.take_requests(now_ms)
    marking.worker_lost(0, now_ms)
    assert marking.retry_at_ms == now_ms + RETRY_MS


def test_every_order_ends_whatever_happens_to_owners() -> None:
    """Random refusals and deaths; when they stop, every order is finished exactly once and every marker was asked."""
    for seed in random_seeds("marker_lives"):
        try:
            _play(Random(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def _play(random: Random) -> None:
    cluster = two_workers()
    marking = Marking(cluster.find)
    open_errands: list[MarkerRequest] = []
    finished: list[MarkersComplete] = []
    ordered: list[str] = []
    codes = (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
    now_ms = 0
    for number in range(30):
        match random.randrange(4):
            case 0:
                ordered.append(f"t{number}")
                partitions = random.sample(sorted(cluster.places), random.randrange(4))
                marking.order(SOURCE, TxnMarkersToSend(f"t{number}", 7, number, 1, True, frozenset(partitions)))
            case 1 if open_errands:
                request = open_errands.pop(random.randrange(len(open_errands)))
                marking.response_received(request.marker_id, [random.choice(codes) for _ in request.slots], now_ms)
            case 2:
                marking.worker_lost(random.randrange(2), now_ms)
            case _:
                now_ms += random.randrange(2 * RETRY_MS)
        open_errands += marking.take_requests(now_ms)
        finished += marking.take_finished()
    while len(marking) or open_errands:
        now_ms += MAX_RETRY_MS
        open_errands += marking.take_requests(now_ms)
        for request in open_errands:
            marking.response_received(request.marker_id, [0] * len(request.slots), now_ms)
        open_errands = []
        finished += marking.take_finished()
    assert sorted(each.transactional_id for each in finished) == sorted(ordered)
