"""Three brokers with three replicas: acks=all, leaders killed, which come back and catch up.

Real, for a client library, kills and ZooKeeper; what many orders of events do is in tests/simulation/cluster.
"""

from contextlib import ExitStack
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]
from kafka.errors import KafkaConnectionError  # type: ignore[import-untyped]

from bench.brokers.processes import WITHIN_S, eventually
from tests.daemon.cluster import Cluster, first_values


def send(cluster: Cluster, broker: int, numbers: range) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.brokers[broker].bootstrap, acks="all", retries=50)
    sent = [producer.send("r", b"%d" % number, partition=number % 3) for number in numbers]
    for each in sent:
        each.get(WITHIN_S)
    producer.close()


class Replicated(Cluster):
    """Its internal topics have three replicas too."""

    def settings(self) -> dict[str, str]:
        return {**super().settings(), "offsets.topic.replication.factor": "3", "min.insync.replicas": "2"}


def consumed(cluster: Cluster, broker: int, count: int, group: str = "g") -> set[bytes]:
    """What a member of the group gets; it commits."""
    consumer = KafkaConsumer(
        "r",
        bootstrap_servers=cluster.brokers[broker].bootstrap,
        auto_offset_reset="earliest",
        group_id=group,
        enable_auto_commit=False,
    )
    found = first_values(consumer, count)
    assert len(set(found)) == len(found), "no record comes twice"
    eventually(lambda: commits(consumer), what="the offsets are committed")
    consumer.close()
    return set(found)


def commits(consumer: KafkaConsumer) -> bool:
    """False when the broker that the client asked for metadata was killed just now."""
    try:
        consumer.commit()
    except KafkaConnectionError:
        return False
    return True


def test_nothing_is_lost_and_a_group_goes_on_when_each_broker_is_killed_with_its_roles(tmp_path: Path) -> None:
    with ExitStack() as ends:
        cluster = Replicated(tmp_path, ends)
        cluster.create(3, "r", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        for broker in (1, 2, 3):
            cluster.wait_until(
                lambda broker=broker: cluster.leaders(broker, "r") == [1, 2, 3],  # type: ignore[misc]
                f"broker {broker} knows the leaders",
            )
        send(cluster, 2, range(300))
        assert len(consumed(cluster, 2, 300)) == 300
        for victim in (1, 2, 3):
            outlive(cluster, victim)
        everything = {b"%d" % number for number in range(1200)}
        assert consumed(cluster, 1, len(everything), "new") == everything


def outlive(cluster: Cluster, victim: int) -> None:
    """Kill a broker, go on without it, and let it catch up."""
    other, first = victim % 3 + 1, 300 * victim
    cluster.brokers[victim].kill()
    cluster.wait_until(lambda: victim not in cluster.leaders(other, "r"), "another one leads")
    send(cluster, other, range(first, first + 300))
    assert consumed(cluster, other, 300) == {b"%d" % number for number in range(first, first + 300)}
    cluster.brokers[victim].start()
    for broker in (1, 2, 3):
        cluster.wait_until(
            lambda broker=broker: cluster.in_sync(broker, "r") == [{1, 2, 3}] * 3,  # type: ignore[misc]
            "it has caught up",
        )
