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
