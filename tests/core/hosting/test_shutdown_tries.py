"""A broker that is about to stop asks until others lead, but waits for nobody who is gone."""

from uuid import UUID

from kafkad.core.cluster.control_requests import ControlledShutdownResponse, RemainingPartition
from kafkad.core.controller.image import Broker, MetadataImage, Partition, Topic
from kafkad.core.errors import ErrorCode
from kafkad.core.hosting.shutdown_tries import AWAY_MS, NOBODY_PAUSE_MS, ShutdownTries

TRIES, PAUSE_MS = 3, 5_000
LEFT = (RemainingPartition(topic_name="t", partition_index=0),)


def image(*live: int) -> MetadataImage:
    row = Partition(
        index=0,
        slot=0,
        owner=0,
        log_dir=0,
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        replicas=(1, 2),
        isr=(1,),
    )
    topic = Topic(name="t", id=UUID(int=7), partitions=(row,), configs={})
    brokers = {each: Broker(id=each, epoch=each, listeners=(), rack=None) for each in live}
    return MetadataImage(brokers=brokers, topics={"t": topic})


def answer(state: ShutdownTries, response: ControlledShutdownResponse | None, *live: int, now_ms: int = 0) -> None:
    state.began_try()
    assert state.next_try_ms is None
    state.answered(response, image(*live), 1, now_ms)


def response(*remaining: RemainingPartition, code: ErrorCode = ErrorCode.NONE) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(error_code=code, remaining_partitions=remaining)


def test_it_is_over_when_others_lead() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    assert state.next_try_ms == 0
    answer(state, response(), 1, 2)
    assert (state.is_over, state.outcome) == (True, "others lead in its place")


def test_it_waits_for_a_replica_that_may_come_into_sync_but_not_for_ever() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    answer(state, response(*LEFT), 1, 2)
    assert (state.is_over, state.next_try_ms) == (False, PAUSE_MS)
    answer(state, response(*LEFT), 1, 2, now_ms=PAUSE_MS)
    answer(state, response(*LEFT), 1, 2, now_ms=2 * PAUSE_MS)
    assert (state.is_over, state.outcome) == (True, "given up: no in-sync replica can take over yet: t-0")


def test_it_waits_for_no_replica_whose_broker_is_gone() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    answer(state, response(*LEFT), 1)
    assert (state.is_over, state.outcome) == (True, "it leads until it ends, as no other replica lives: t-0")


def test_a_topic_that_is_gone_holds_up_nothing() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    answer(state, response(RemainingPartition(topic_name="u", partition_index=0)), 1, 2)
    assert state.is_over


def test_while_a_controller_is_elected_it_asks_again_soon() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    now_ms = 0
    while not state.is_over:
        answer(state, None, 1, 2, now_ms=now_ms)
        if state.next_try_ms is not None:
            assert state.next_try_ms == now_ms + NOBODY_PAUSE_MS
            now_ms = state.next_try_ms
    assert (now_ms, state.outcome) == (TRIES * PAUSE_MS, "given up: no controller answers")


def test_a_refusal_is_a_try() -> None:
    state = ShutdownTries(1, PAUSE_MS, 0)
    answer(state, response(code=ErrorCode.STALE_BROKER_EPOCH), 1, 2)
    assert (state.is_over, state.outcome) == (True, "given up: the controller refuses: STALE_BROKER_EPOCH")


def test_without_a_try_nothing_is_asked() -> None:
    state = ShutdownTries(0, PAUSE_MS, 0)
    assert (state.is_over, state.next_try_ms) == (True, None)


def test_it_does_not_wait_for_a_store_that_is_away() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    nobodys_answers = (None, response(code=ErrorCode.NOT_CONTROLLER))
    tries, now_ms = 0, 0
    while not state.is_over:
        state.began_try()
        state.answered(nobodys_answers[tries % 2], image(1, 2), 1, now_ms, has_store=False)
        tries, now_ms = tries + 1, state.next_try_ms or now_ms
    assert (tries, now_ms) == (AWAY_MS // NOBODY_PAUSE_MS + 1, AWAY_MS)
    assert state.outcome == "given up: the coordination store is away"


def test_a_controller_that_answers_is_heeded_also_when_the_store_is_away_from_here() -> None:
    state = ShutdownTries(TRIES, PAUSE_MS, 0)
    state.began_try()
    state.answered(response(*LEFT), image(1, 2), 1, AWAY_MS, has_store=False)
    assert (state.is_over, state.next_try_ms) == (False, AWAY_MS + PAUSE_MS)
    state.began_try()
    state.answered(response(), image(1, 2), 1, AWAY_MS, has_store=False)
    assert state.outcome == "others lead in its place"
