"""A broker that is about to stop asks until others lead, but waits for nobody who is gone."""

from dataclasses import replace
from uuid import UUID

from msgspec import structs

from kafkad.core.cluster.control_requests import ControlledShutdownResponse, RemainingPartition
from kafkad.core.controller.image import Broker, MetadataImage, Partition, Topic
from kafkad.core.errors import ErrorCode
from kafkad.core.hosting.shutdown_tries import (
    NEW_LEADERS_MS,
    NO_CONTROLLER_PAUSE_MS,
    WITHOUT_STORE_MS,
    ShutdownTries,
    names_of,
)

TRIES, PAUSE_MS = 3, 5_000
LEFT = (RemainingPartition(topic_name="t", partition_index=0),)

AWAY = "aborted: no connection to the coordination store, or the broker is not registered"


def image(*live: int, leader: int = 1) -> MetadataImage:
    row = Partition(
        index=0,
        slot=0,
        owner=0,
        log_dir=0,
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        replicas=(1, 2),
        isr=(1,),
    )
    topic = Topic(name="t", id=UUID(int=7), partitions=(row,), configs={})
    brokers = {each: Broker(id=each, epoch=each, listeners=(), rack=None) for each in live}
    return MetadataImage(brokers=brokers, topics={"t": topic})


def answer(state: ShutdownTries, response: ControlledShutdownResponse | None, *live: int, now_ms: int = 0) -> None:
    state.request_sent()
    assert state.next_try_ms is None
    state.response_received(response, image(*live), 1, now_ms)


def response(*remaining: RemainingPartition, code: ErrorCode = ErrorCode.NONE) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(error_code=code, remaining_partitions=remaining)


def test_it_is_over_when_others_lead() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    assert state.next_try_ms == 0
    answer(state, response(), 1, 2)
    assert (state.is_over, state.next_deadline_ms) == (False, NEW_LEADERS_MS)
    state.metadata_changed(image(1, 2), 1, 100)
    assert not state.is_over
    state.metadata_changed(image(1, 2, leader=2), 1, 200)
    assert (state.is_over, state.outcome) == (True, "other brokers lead all partitions")


def test_it_does_not_wait_long_for_the_requests_with_the_new_leaders() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    answer(state, response(), 1, 2)
    state.metadata_changed(image(1, 2), 1, NEW_LEADERS_MS)
    assert state.is_over
    assert state.outcome == "other brokers lead all partitions; no LeaderAndIsr request within 5000 ms"


def test_a_partition_with_a_single_replica_keeps_its_leader() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    single = image(1, 2)
    topic = single.topics["t"]
    row = structs.replace(topic.partitions[0], replicas=(1,))
    state.response_received(response(), replace(single, topics={"t": structs.replace(topic, partitions=(row,))}), 1, 0)
    assert (state.is_over, state.outcome) == (True, "other brokers lead all partitions")


def test_it_waits_for_a_replica_that_may_come_into_sync_but_not_for_ever() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    answer(state, response(*LEFT), 1, 2)
    assert (state.is_over, state.next_try_ms) == (False, PAUSE_MS)
    answer(state, response(*LEFT), 1, 2, now_ms=PAUSE_MS)
    answer(state, response(*LEFT), 1, 2, now_ms=2 * PAUSE_MS)
    assert (state.is_over, state.outcome) == (True, "aborted: no in-sync replica can lead yet: t-0")


def test_it_waits_for_no_replica_whose_broker_is_gone() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    answer(state, response(*LEFT), 1)
    assert (state.is_over, state.outcome) == (
        True,
        "this broker leads until it stops, without another live replica: t-0",
    )


def test_a_topic_that_is_gone_holds_up_nothing() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    answer(state, response(RemainingPartition(topic_name="u", partition_index=0)), 1, 2)
    state.metadata_changed(image(1, 2, leader=2), 1, 0)
    assert state.is_over


def test_while_a_controller_is_elected_it_asks_again_soon() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    now_ms = 0
    while not state.is_over:
        answer(state, None, 1, 2, now_ms=now_ms)
        if state.next_try_ms is not None:
            assert state.next_try_ms == now_ms + NO_CONTROLLER_PAUSE_MS
            now_ms = state.next_try_ms
    assert (now_ms, state.outcome) == (TRIES * PAUSE_MS, "aborted: no controller responds")


def test_a_refusal_is_a_try() -> None:
    state = ShutdownTries(1, PAUSE_MS, 0)
    answer(state, response(code=ErrorCode.STALE_BROKER_EPOCH), 1, 2)
    assert (state.is_over, state.outcome) == (True, "aborted: the controller returns STALE_BROKER_EPOCH")


def test_without_a_try_nothing_is_asked() -> None:
    state = ShutdownTries(0, PAUSE_MS, 0)
    assert (state.is_over, state.next_try_ms) == (True, None)


def nobody_answers(state: ShutdownTries, now_ms: int, *, has_store: bool, until_ms: int) -> int:
    """Every try fails at once; returns when it is over, or `until_ms`."""
    codes = (None, response(code=ErrorCode.NOT_CONTROLLER))
    tries = 0
    while not state.is_over and now_ms < until_ms:
        state.tick(now_ms, has_store=has_store)
        if state.next_try_ms is not None and state.next_try_ms <= now_ms:
            answer(state, codes[tries % 2], 1, 2, now_ms=now_ms)
            tries += 1
        assert state.is_over or state.next_deadline_ms is not None
        now_ms = state.next_deadline_ms or now_ms
    return now_ms


def test_it_does_not_wait_for_a_store_that_is_away() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    assert nobody_answers(state, 0, has_store=False, until_ms=10 * PAUSE_MS) == WITHOUT_STORE_MS
    assert state.outcome == AWAY


def test_a_connection_that_comes_back_counts_for_nothing() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    now_ms = nobody_answers(state, 0, has_store=True, until_ms=WITHOUT_STORE_MS + 200)
    state.tick(now_ms, has_store=False)
    state.tick(now_ms + 100, has_store=True)
    now_ms = nobody_answers(state, now_ms + 100, has_store=True, until_ms=2 * WITHOUT_STORE_MS)
    assert not state.is_over
    assert nobody_answers(state, now_ms, has_store=False, until_ms=10 * PAUSE_MS) == now_ms + WITHOUT_STORE_MS


def next_ms(state: ShutdownTries) -> int | None:
    return state.next_deadline_ms


def test_a_silent_controller_is_not_waited_for_while_the_store_is_away() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    state.request_sent()
    state.tick(1_000, has_store=False)
    assert next_ms(state) == 1_000 + WITHOUT_STORE_MS
    state.tick(1_000 + WITHOUT_STORE_MS, has_store=False)
    assert (state.is_over, next_ms(state)) == (True, None)
    state.response_received(response(*LEFT), image(1, 2), 1, 2_000 + WITHOUT_STORE_MS)
    assert (next_ms(state), state.outcome) == (None, AWAY)


def test_a_controller_that_answers_is_heeded_also_when_the_store_is_away_from_here() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    state.tick(0, has_store=False)
    answer(state, response(*LEFT), 1, 2, now_ms=WITHOUT_STORE_MS - 1)
    state.tick(WITHOUT_STORE_MS, has_store=False)
    assert (state.is_over, state.next_deadline_ms) == (False, WITHOUT_STORE_MS - 1 + PAUSE_MS)
    state.tick(WITHOUT_STORE_MS - 1 + PAUSE_MS, has_store=False)
    answer(state, response(), 1, 2, now_ms=WITHOUT_STORE_MS + PAUSE_MS)
    state.tick(WITHOUT_STORE_MS + PAUSE_MS, has_store=False)
    assert not state.is_over
    state.metadata_changed(image(1, 2, leader=2), 1, WITHOUT_STORE_MS + PAUSE_MS)
    assert state.outcome == "other brokers lead all partitions"


def test_partitions_are_named_up_to_a_few_however_many_there_are() -> None:
    rows = [RemainingPartition(topic_name="t", partition_index=index) for index in range(10_000)]
    assert names_of(rows[:2]) == "t-0, t-1"
    assert names_of(rows) == "t-0, t-1, t-2, t-3, t-4 and 9995 more"
