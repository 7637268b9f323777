"""`kafkad reassign generate`: which brokers could have the partitions of some topics?"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkad.cli.asking import CommandFailed
from kafkad.client.broker_client import BrokerDescription, TopicDescription
from kafkad.client.reassignments import Partition
from kafkad.core.controller.topics.assignment import assign_replicas
from kafkad.core.errors import KafkaError


def proposed(
    topics: Sequence[TopicDescription],
    brokers: Sequence[BrokerDescription],
    wanted: Sequence[int],
    *,
    with_racks: bool,
    random_below: Callable[[int], int],
) -> Mapping[Partition, tuple[int, ...]]:
    """New replicas of all partitions on the `wanted` brokers, spread as those of a new topic are.

    A topic has as many replicas as its first partition, as in kafka-reassign-partitions. CommandFailed if a broker is
    away, there are fewer than that, or only some have a rack.
    """
    racks = {each.broker: each.rack for each in brokers if each.broker in wanted}
    away = sorted(set(wanted) - racks.keys())
    if away:
        raise CommandFailed(f"there is no broker {', '.join(map(str, away))}")
    if not with_racks:
        racks = dict.fromkeys(racks)
    elif len({rack is None for rack in racks.values()}) > 1:
        raise CommandFailed("only some of the brokers have a rack; with --disable-rack-aware none counts")
    found: dict[Partition, tuple[int, ...]] = {}
    for topic in topics:
        try:
            rows = assign_replicas(
                racks,
                len(topic.partitions),
                len(topic.partitions[0].replicas),
                start_index=random_below(len(racks)),
                shift=random_below(len(racks)),
            )
        except KafkaError as refused:
            raise CommandFailed(f"{topic.name}: {refused}") from None
        found |= {(topic.name, row.partition): ids for row, ids in zip(topic.partitions, rows, strict=True)}
    return found


def as_document(replicas: Mapping[Partition, Sequence[int]]) -> dict[str, Any]:
    """The file that kafka-reassign-partitions reads; replicas are in the default directory of their brokers."""
    rows = [
        {"topic": topic, "partition": index, "replicas": list(ids), "log_dirs": ["any"] * len(ids)}
        for (topic, index), ids in sorted(replicas.items())
    ]
    return {"version": 1, "partitions": rows}
