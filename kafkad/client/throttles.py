"""Limits on what replicas copy while partitions move (KIP-73), set as by kafka-reassign-partitions.sh.

A limit has two halves: a rate of each broker, and in the configuration of each topic which replicas it holds back.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkad.client.broker_client import BrokerClient
from kafkad.client.configs import OF_BROKER, OF_TOPIC, alter_configs

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""Options of a broker, in bytes a second."""
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
"""Options of a topic: PARTITION:BROKER,…"""


class Move(NamedTuple):
    """`sources` have the partition, `targets` get it."""

    topic: str
    partition: int
    sources: tuple[int, ...]
    targets: tuple[int, ...]


def throttled_replicas(moves: Iterable[Move]) -> dict[str, dict[str, str]]:
    """By topic the replicas that are held back: as leaders those that are copied, as followers the new ones."""
    found: dict[str, dict[str, list[str]]] = {}
    for move in sorted(moves):
        options = found.setdefault(move.topic, {LEADERS: [], FOLLOWERS: []})
        options[LEADERS] += [f"{move.partition}:{broker}" for broker in move.sources]
        options[FOLLOWERS] += [f"{move.partition}:{broker}" for broker in move.targets]
    return {topic: {option: ",".join(rows) for option, rows in options.items()} for topic, options in found.items()}


def throttle(client: BrokerClient, moves: Sequence[Move], rate: int) -> None:
    """Each broker sends and gets at most `rate` bytes a second of these moves; a broker that is away copies nothing."""
    for topic, options in throttled_replicas(moves).items():
        alter_configs(client.any_broker(), OF_TOPIC, topic, options)
    wanted = {broker for move in moves for broker in (*move.sources, *move.targets)}
    for broker, connection in client.brokers().items():
        if broker in wanted:
            alter_configs(connection, OF_BROKER, str(broker), dict.fromkeys(RATES, str(rate)))


def unthrottle(client: BrokerClient, topics: Iterable[str]) -> None:
    """Nothing of these topics is held back any more, and no broker has a rate."""
    for topic in sorted(set(topics)):
        alter_configs(client.any_broker(), OF_TOPIC, topic, {LEADERS: None, FOLLOWERS: None})
    for broker, connection in client.brokers().items():
        alter_configs(connection, OF_BROKER, str(broker), dict.fromkeys(RATES))
