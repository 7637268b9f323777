"""Internal topics of a single broker get one replica."""

from kafkad.core.controller.topics.internal_topics import with_single_replica
from kafkad.core.controller.topics.topics import NewTopic

WANTED = NewTopic(
    name="__transaction_state",
    partitions=50,
    replication_factor=3,
    configs=(("cleanup.policy", "compact"), ("min.insync.replicas", "2")),
)


def test_a_single_broker_gets_one_replica_that_is_enough() -> None:
    made = with_single_replica(WANTED)
    assert (made.replication_factor, made.partitions) == (1, 50)
    assert dict(made.configs) == {"cleanup.policy": "compact", "min.insync.replicas": "1"}


def test_what_is_for_one_broker_stays_as_it_is() -> None:
    one = NewTopic(name="__consumer_offsets", partitions=50, replication_factor=1, configs=(("a", None),))
    assert with_single_replica(one) is one
