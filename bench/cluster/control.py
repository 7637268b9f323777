"""Topics of a cluster, through confluent-kafka: made with chosen leaders, waited for, deleted."""

import time
from collections.abc import Callable
from concurrent.futures import Future

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

from bench.brokers.clusters import NUMBERS, RunningCluster

_TIMEOUT_S = 180.0


def wait_until(is_true: Callable[[], bool], what: str, pause_s: float = 0.02) -> float:
    """Seconds until it was. Raises TimeoutError."""
    started = time.perf_counter()
    while not is_true():
        if time.perf_counter() > started + _TIMEOUT_S:
            raise TimeoutError(f"still waiting for: {what}")
        time.sleep(pause_s)
    return time.perf_counter() - started


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def wait_until_complete(cluster: RunningCluster) -> None:
    """Every broker knows all of them. Brokers answer before."""
    wait_until(
        lambda: all(len(described(each.bootstrap).brokers) == len(NUMBERS) for each in cluster.brokers.values()),
        "all brokers know each other",
    )


def replicas_led_by(leader: int) -> list[int]:
    return [leader, *(number for number in NUMBERS if number != leader)]


def make_topic(cluster: RunningCluster, name: str, assignments: list[list[int]]) -> float:
    """Seconds until every broker says that all partitions are led by their first replica, and all are in sync."""
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
    """On all brokers, as each of them says."""
    topics = [described(broker.bootstrap, name).topics[name] for broker in cluster.brokers.values()]
    return all(
        len(each.isrs) == len(cluster.brokers) for topic in topics for each in topic.partitions.values()
    ) and all(topic.partitions for topic in topics)


def described(bootstrap: str, name: str | None = None) -> ClusterMetadata:
    """What one of these brokers says. Raises KafkaException."""
    admin = _admin(bootstrap)
    return admin.list_topics(name, 10) if name is not None else admin.list_topics(timeout=10)


def lead_again(cluster: RunningCluster, name: str, partition: int, leader: int) -> None:
    """The partition is led by this broker, its first replica, which has been away."""
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
    """Seconds until its name can be given again."""
    admin = _admin(cluster.bootstrap)

    def is_free() -> bool:
        try:
            _only(admin.create_topics([NewTopic(name, 1, 3)], validate_only=True))
        except KafkaException as refused:
            if refused.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    started = time.perf_counter()
    _only(admin.delete_topics([name]))
    wait_until(is_free, f"{name} is gone", 0.05)
    return time.perf_counter() - started


def _only(futures: "dict[str, Future[None]]") -> None:
    (future,) = futures.values()
    future.result(_TIMEOUT_S)
