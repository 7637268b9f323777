import pytest

from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.image import NO_LEADER, Broker
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.types import TopicPartition
from kafkad.plugins.leader_election import PreferredReplica

PARTITION = TopicPartition("t", 0)


def test_a_broker_whose_directory_fails_leaves_an_electorate_that_knows_the_other_failed_directories() -> None:
    brokers = {broker: Broker(id=broker, epoch=broker, listeners=(), rack=None) for broker in (1, 2, 3)}
    electorate = Electorate(PreferredReplica(), brokers, shutting_down={3}, offline={PARTITION: {2}})

    others = electorate.without(1)

    led_by_1 = PartitionState(leader=1, leader_epoch=0, isr=(1, 2))
    state = others.next_state(PARTITION, (1, 2, 3), led_by_1)
    assert state is not None
    assert (state.leader, state.isr) == (NO_LEADER, (1, 2))
    assert others.is_online(PARTITION, 3), "it is shutting down, and still there"
    assert electorate.next_state(PARTITION, (1, 2, 3), led_by_1) is None


@pytest.mark.parametrize(
    ("isr", "leader", "restarted", "expected"),
    [
        ((1, 2), 1, {3}, None),
        ((1, 2), 1, {1}, (2, (2,))),
        ((1, 2), 1, {2}, (1, (1,))),
        ((1, 2, 3), 3, {3}, (1, (1, 2))),
        ((1, 2), 1, {1, 2}, (1, (1, 2))),
        ((1, 4), 4, {1}, (1, (1,))),
        ((4,), 4, {1}, None),
    ],
)
def test_who_has_lived_on_is_in_sync_and_else_who_is_there_in_another_epoch(
    isr: tuple[int, ...], leader: int, restarted: set[int], expected: tuple[int, tuple[int, ...]] | None
) -> None:
    """Broker 4 is away."""
    brokers = {broker: Broker(id=broker, epoch=broker, listeners=(), rack=None) for broker in (1, 2, 3)}
    electorate = Electorate(PreferredReplica(), brokers)
    state = PartitionState(leader=leader, leader_epoch=5, isr=isr)
    found = electorate.state_after_restarts(PARTITION, (1, 2, 3, 4), state, restarted)
    assert (None if found is None else (found.leader, found.isr)) == expected
    assert found is None or found.leader_epoch == 6
