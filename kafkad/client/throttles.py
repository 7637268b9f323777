"""Throttles for reassignments (KIP-73), set as by kafka-reassign-partitions.sh.

A throttle consists of a rate of each broker, and of the throttled replicas in each topic's configuration.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkad.client.broker_client import BrokerClient
from kafkad.client.configs import OF_BROKER, OF_TOPIC, alter_configs

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""Options of a broker, in bytes per second."""
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
"""Options of a topic: PARTITION:BROKER,…"""


class Move(NamedTuple):
    """`sources` are the current replicas, `targets` the new replicas."""

    topic: str
    partition: int
    sources: tuple[int, ...]
    targets: tuple[int, ...]


def throttled_replicas(moves: Iterable[Move]) -> dict[str, dict[str, str]]:
    """The throttled replicas by topic: the sources as leaders, the targets as followers."""
    found: dict[str, dict[str, list[str]]] = {}
    for move in sorted(moves):
        options = found.setdefault(move.topic, {LEADERS: [], FOLLOWERS: []})
        options[LEADERS] += [f"{move.partition}:{broker}" for broker in move.sources]
        options[FOLLOWERS] += [f"{move.partition}:{broker}" for broker in move.targets]
    return {topic: {option: ",".join(rows) for option, rows in options.items()} for topic, options in found.items()}


def throttle(client: BrokerClient, moves: Sequence[Move], rate: int) -> None:
    """Limit these moves to `rate` bytes per second for each broker, sent and received. Skips dead brokers."""
    for topic, options in throttled_replicas(moves).items():
        alter_configs(client.any_broker(), OF_TOPIC, topic, options)
    brokers = {broker for move in moves for broker in (*move.sources, *move.targets)}
    for broker, connection in client.brokers().items():
        if broker in brokers:
            alter_configs(connection, OF_BROKER, str(broker), dict.fromkeys(RATES, str(rate)))


def unthrottle(client: BrokerClient, topics: Iterable[str]) -> None:
    """Remove the throttled replicas of these topics, and the rates of all brokers."""
    for topic in sorted(set(topics)):
        alter_configs(client.any_broker(), OF_TOPIC, topic, {LEADERS: None, FOLLOWERS: None})
    for broker, connection in client.brokers().items():
        alter_configs(connection, OF_BROKER, str(broker), dict.fromkeys(RATES))
