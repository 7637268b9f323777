"""Plans of reassignments: proposed replicas of the partitions of topics, and the file format of a plan."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import MsgspecError, Struct, json

from kafkad.cli.broker_options import CommandFailed
from kafkad.client.broker_client import BrokerDescription, TopicDescription
from kafkad.client.reassignments import Partition
from kafkad.core.controller.topics.assignment import assign_replicas
from kafkad.core.errors import KafkaError


def proposed(
    topics: Sequence[TopicDescription],
    brokers: Sequence[BrokerDescription],
    broker_ids: Sequence[int],
    *,
    with_racks: bool,
    random_below: Callable[[int], int],
) -> Mapping[Partition, tuple[int, ...]]:
    """New replicas of all partitions on these brokers, spread like the replicas of a new topic.

    The replication factor of a topic is that of its first partition, as in kafka-reassign-partitions. Raises
    CommandFailed if a broker is not registered, there are too few brokers, or only some have a rack.
    """
    racks = {each.broker: each.rack for each in brokers if each.broker in broker_ids}
    missing = sorted(set(broker_ids) - racks.keys())
    if missing:
        raise CommandFailed(f"no broker {', '.join(map(str, missing))} exists")
    if not with_racks:
        racks = dict.fromkeys(racks)
    elif len({rack is None for rack in racks.values()}) > 1:
        raise CommandFailed("only some of the brokers have a rack; --disable-rack-aware ignores racks")
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
        except KafkaError as rejected:
            raise CommandFailed(f"{topic.name}: {rejected}") from None
        found |= {(topic.name, row.partition): ids for row, ids in zip(topic.partitions, rows, strict=True)}
    return found


def as_document(replicas: Mapping[Partition, Sequence[int]]) -> dict[str, Any]:
    """The content of a file for kafka-reassign-partitions; brokers choose the log directories of replicas."""
    rows = [
        {"topic": topic, "partition": index, "replicas": list(ids), "log_dirs": ["any"] * len(ids)}
        for (topic, index), ids in sorted(replicas.items())
    ]
    return {"version": 1, "partitions": rows}


class _Row(Struct):
    topic: str
    partition: int
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...] = ()


class _Plan(Struct):
    partitions: tuple[_Row, ...]


class _File(Struct):
    """A plan, or the current replicas and a plan, as `kafkad reassign generate --json` prints them."""

    partitions: tuple[_Row, ...] = ()
    proposed: _Plan | None = None


def from_document(text: str | bytes) -> dict[Partition, tuple[int, ...]]:
    """The replicas of each partition in a file of kafka-reassign-partitions or kafkad. Raises CommandFailed."""
    try:
        file = json.decode(text, type=_File)
    except MsgspecError as error:
        raise CommandFailed(f"the plan can't be read: {error}") from None
    rows = file.partitions if file.proposed is None else file.proposed.partitions
    if not rows:
        raise CommandFailed("the plan names no partition")
    plan = {(each.topic, each.partition): each.replicas for each in rows}
    if len(plan) != len(rows):
        raise CommandFailed("the plan names a partition twice")
    if any(each != "any" for row in rows for each in row.log_dirs):
        raise CommandFailed('the plan names log directories: "kafkad log-dirs move" moves replicas to them')
    return plan
