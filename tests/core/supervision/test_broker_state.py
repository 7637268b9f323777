"""Broker states: Kafka's numbers, and only Kafka's transitions."""

import pytest

from kafkad.core.supervision.broker_state import BrokerState, IllegalTransition, enter, is_legal, leaving

S = BrokerState


def test_numbers_are_kafkas() -> None:
    assert [state.value for state in S] == [0, 1, 2, 3, 4, 6, 7]


@pytest.mark.parametrize(
    "way",
    [
        (S.NOT_RUNNING, S.STARTING, S.RUNNING_AS_BROKER, S.RUNNING_AS_CONTROLLER, S.RUNNING_AS_BROKER),
        (S.STARTING, S.RECOVERING_FROM_UNCLEAN_SHUTDOWN, S.RUNNING_AS_BROKER),
        (S.RUNNING_AS_BROKER, S.PENDING_CONTROLLED_SHUTDOWN, S.BROKER_SHUTTING_DOWN, S.NOT_RUNNING),
        (S.RUNNING_AS_CONTROLLER, S.PENDING_CONTROLLED_SHUTDOWN),
    ],
)
def test_kafkas_ways_are_legal(way: tuple[BrokerState, ...]) -> None:
    state = int(way[0])
    for new in way[1:]:
        state = enter(state, new)
    assert state == way[-1]


@pytest.mark.parametrize(
    ("current", "new"),
    [
        (S.NOT_RUNNING, S.RUNNING_AS_BROKER),
        (S.STARTING, S.RUNNING_AS_CONTROLLER),
        (S.STARTING, S.PENDING_CONTROLLED_SHUTDOWN),
        (S.RUNNING_AS_BROKER, S.NOT_RUNNING),
        (S.RUNNING_AS_BROKER, S.BROKER_SHUTTING_DOWN),
        (S.PENDING_CONTROLLED_SHUTDOWN, S.RUNNING_AS_BROKER),
        (S.BROKER_SHUTTING_DOWN, S.STARTING),
        (S.RUNNING_AS_BROKER, S.RUNNING_AS_BROKER),
    ],
)
def test_other_ways_are_refused_by_name(current: BrokerState, new: BrokerState) -> None:
    with pytest.raises(IllegalTransition, match=f"from {current.name} to {new.name}"):
        enter(current, new)


def test_custom_state_is_a_byte_of_its_own() -> None:
    assert is_legal(S.RUNNING_AS_BROKER, 100)
    assert is_legal(100, S.RUNNING_AS_BROKER)
    assert not is_legal(S.RUNNING_AS_BROKER, 128)


@pytest.mark.parametrize("state", [state for state in S if 0 < state < 6])
def test_every_state_that_is_up_has_a_legal_way_down(state: BrokerState) -> None:
    current = int(state)
    for new in (*leaving(state), S.NOT_RUNNING):
        current = enter(current, new)
    assert current == S.NOT_RUNNING
