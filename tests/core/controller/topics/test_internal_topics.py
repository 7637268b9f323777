"""Internal topics get as many replicas as the cluster allows."""

from kafkad.core.controller.topics.internal_topics import fitted
from kafkad.core.controller.topics.topics import NewTopic

WANTED = NewTopic(
    name="__transaction_state",
    partitions=50,
    replication_factor=3,
    configs=(("cleanup.policy", "compact"), ("min.insync.replicas", "2")),
)


def test_a_single_broker_gets_one_replica_that_is_enough() -> None:
    made = fitted(WANTED, 1)
    assert (made.replication_factor, made.partitions) == (1, 50)
    assert dict(made.configs) == {"cleanup.policy": "compact", "min.insync.replicas": "1"}


def test_two_brokers_keep_what_two_can_keep() -> None:
    made = fitted(WANTED, 2)
    assert (made.replication_factor, dict(made.configs)["min.insync.replicas"]) == (2, "2")


def test_enough_brokers_get_what_the_configuration_says() -> None:
    assert fitted(WANTED, 3) is WANTED
    assert fitted(WANTED, 7) is WANTED


def test_before_any_broker_is_known_there_is_this_one() -> None:
    assert fitted(WANTED, 0).replication_factor == 1
