"""Limits on what replicas copy while partitions move (KIP-73), set as by kafka-reassign-partitions.sh.

A limit has two halves: a rate of each broker, and in the configuration of each topic which replicas it holds back.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.static.primitive import i8

from kafkad.client.broker_client import BrokerClient, raise_for
from kafkad.client.connection import BrokerConnection

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""Options of a broker, in bytes a second."""
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
"""Options of a topic: PARTITION:BROKER,…"""
_TOPIC, _BROKER = i8(2), i8(4)
_SET, _DELETE = i8(0), i8(1)


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
        _alter(client.any_broker(), _TOPIC, topic, options)
    wanted = {broker for move in moves for broker in (*move.sources, *move.targets)}
    for broker, connection in client.brokers().items():
        if broker in wanted:
            _alter(connection, _BROKER, str(broker), dict.fromkeys(RATES, str(rate)))


def unthrottle(client: BrokerClient, topics: Iterable[str]) -> None:
    """Nothing of these topics is held back any more, and no broker has a rate."""
    for topic in sorted(set(topics)):
        _alter(client.any_broker(), _TOPIC, topic, {LEADERS: None, FOLLOWERS: None})
    for broker, connection in client.brokers().items():
        _alter(connection, _BROKER, str(broker), dict.fromkeys(RATES))


def _alter(connection: BrokerConnection, kind: i8, name: str, options: Mapping[str, str | None]) -> None:
    configs = tuple(
        AlterableConfig(name=option, config_operation=_DELETE if value is None else _SET, value=value)
        for option, value in options.items()
    )
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    for result in connection.call(request, IncrementalAlterConfigsResponse).responses:
        what = f"topic {name!r}" if kind == _TOPIC else f"broker {name}"
        raise_for(result.error_code, f"{what} was not changed", result.error_message)
