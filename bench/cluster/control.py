"""Create topics with given leaders, wait for them and delete them, in a cluster, through confluent-kafka."""

import time
from collections.abc import Callable
from concurrent.futures import Future

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

from bench.brokers.clusters import NUMBERS, RunningCluster

_TIMEOUT_S = 180.0


def wait_until(is_true: Callable[[], bool], what: str, pause_s: float = 0.02) -> float:
    """Wait until `is_true`; returns the seconds. Raises TimeoutError."""
    started = time.perf_counter()
    while not is_true():
        if time.perf_counter() > started + _TIMEOUT_S:
            raise TimeoutError(f"still waiting for: {what}")
        time.sleep(pause_s)
    return time.perf_counter() - started


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def wait_until_complete(cluster: RunningCluster) -> None:
    """Wait until the metadata of every broker has all brokers. Brokers respond before."""
    wait_until(
        lambda: all(len(described(each.bootstrap).brokers) == len(NUMBERS) for each in cluster.brokers.values()),
        "all brokers know each other",
    )


def replicas_led_by(leader: int) -> list[int]:
    return [leader, *(number for number in NUMBERS if number != leader)]


def make_topic(cluster: RunningCluster, name: str, assignments: list[list[int]]) -> float:
    """Create a topic; returns the seconds until first replicas lead and all replicas are in sync, on every broker."""
    admin = _admin(cluster.bootstrap)
    started = time.perf_counter()
    _only(admin.create_topics([NewTopic(name, len(assignments), replica_assignment=assignments)]))

    def is_led(bootstrap: str) -> bool:
        return _leaders(bootstrap, name) == {number: replicas[0] for number, replicas in enumerate(assignments)}

    def is_complete() -> bool:
        return are_in_sync(cluster, name) and all(is_led(broker.bootstrap) for broker in cluster.brokers.values())

    wait_until(is_complete, f"{name} is led everywhere")
    return time.perf_counter() - started


def leaders(cluster: RunningCluster, name: str) -> dict[int, int]:
    return _leaders(cluster.bootstrap, name)


def _leaders(bootstrap: str, name: str) -> dict[int, int]:
    return {number: each.leader for number, each in described(bootstrap, name).topics[name].partitions.items()}


def are_in_sync(cluster: RunningCluster, name: str) -> bool:
    """Whether all replicas are in sync, in the metadata of every broker."""
    topics = [described(broker.bootstrap, name).topics[name] for broker in cluster.brokers.values()]
    return all(
        len(each.isrs) == len(cluster.brokers) for topic in topics for each in topic.partitions.values()
    ) and all(topic.partitions for topic in topics)


def described(bootstrap: str, name: str | None = None) -> ClusterMetadata:
    """The metadata of one of these brokers. Raises KafkaException."""
    admin = _admin(bootstrap)
    return admin.list_topics(name, 10) if name is not None else admin.list_topics(timeout=10)


def elect_preferred_leader(cluster: RunningCluster, name: str, partition: int, leader: int) -> None:
    """Elect the preferred leader of the partition, a broker that was restarted."""
    chosen = [TopicPartition(name, partition)]
    admin = _admin(cluster.bootstrap)
    admin.elect_leaders(ElectionType.PREFERRED, chosen).result(_TIMEOUT_S)
    wait_until(
        lambda: all(_leaders(each.bootstrap, name)[partition] == leader for each in cluster.brokers.values()),
        f"{leader} leads again",
    )


def controller(cluster: RunningCluster) -> int:
    return int(described(cluster.bootstrap).controller_id)


def drop_topic(cluster: RunningCluster, name: str) -> float:
    """Delete a topic; returns the seconds until its name can be reused."""
    admin = _admin(cluster.bootstrap)

    def is_free() -> bool:
        try:
            _only(admin.create_topics([NewTopic(name, 1, 3)], validate_only=True))
        except KafkaException as rejected:
            if rejected.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    started = time.perf_counter()
    _only(admin.delete_topics([name]))
    wait_until(is_free, f"{name} is deleted", 0.05)
    return time.perf_counter() - started


def _only(futures: "dict[str, Future[None]]") -> None:
    (future,) = futures.values()
    future.result(_TIMEOUT_S)
