"""Moving replicas to other log directories: the requests of `kafkad log-dirs move`, over a `BrokerClient`."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kio.schema.alter_replica_log_dirs.v2.request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kio.schema.alter_replica_log_dirs.v2.response import AlterReplicaLogDirsResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32

from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.client.log_dirs import LogDirDescription
from kafkad.core.errors import ErrorCode


class ReplicaMove(NamedTuple):
    """A partition that is in `source` and wanted in `target`; `copied_bytes` of its `size_bytes` are there.

    `is_under_way`: it is being moved, there or elsewhere.
    """

    topic: str
    partition: int
    broker: int
    source: str
    target: str
    size_bytes: int
    copied_bytes: int = 0
    is_under_way: bool = False

    @property
    def is_done(self) -> bool:
        return self.source == self.target


def find_moves(
    found: Sequence[LogDirDescription], wanted: Iterable[tuple[str, int]], broker: int, target: str
) -> list[ReplicaMove]:
    """Where each of these partitions is now. Those that the broker does not have are left out."""
    here: dict[tuple[str, int], tuple[str, int]] = {}
    futures: dict[tuple[str, int], int] = {}
    for row in found:
        for each in row.replicas if row.broker == broker else ():
            at = each.topic, each.partition
            if not each.is_future:
                here[at] = row.path, each.size_bytes
            else:
                futures[at] = each.size_bytes if row.path == target else 0
    return [
        ReplicaMove(
            topic=at[0],
            partition=at[1],
            broker=broker,
            source=here[at][0],
            target=target,
            size_bytes=here[at][1],
            copied_bytes=futures.get(at, 0),
            is_under_way=at in futures,
        )
        for at in sorted(set(wanted))
        if at in here
    ]


def request_moves(client: BrokerClient, moves: Sequence[ReplicaMove]) -> dict[tuple[str, int], ErrorCode]:
    """The code of each partition. All moves are to one directory of one broker."""
    topics: dict[str, list[i32]] = {}
    for move in moves:
        topics.setdefault(move.topic, []).append(i32(move.partition))
    named = tuple(
        AlterReplicaLogDirTopic(name=TopicName(name), partitions=tuple(rows)) for name, rows in topics.items()
    )
    connection = client.brokers().get(moves[0].broker)
    if connection is None:
        raise BrokerCallFailed(f"broker {moves[0].broker} does not exist")
    request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=moves[0].target, topics=named),))
    response = connection.call(request, AlterReplicaLogDirsResponse)
    return {
        (topic.topic_name, row.partition_index): ErrorCode(int(row.error_code))
        for topic in response.results
        for row in topic.partitions
    }
