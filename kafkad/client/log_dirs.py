"""The log directories of the brokers: the request of `kafkad log-dirs`, with a `BrokerClient`."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kio.schema.describe_log_dirs.v4.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v4.response import DescribeLogDirsResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32

from kafkad.client.broker_client import BrokerClient, raise_for
from kafkad.core.errors import ErrorCode

UNKNOWN = -1


class Replica(NamedTuple):
    """A replica in a directory. `is_future`: the replica is being moved there, with `offset_lag`."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """`error` is the error of an offline directory; sizes are for its file system, or UNKNOWN."""

    broker: int
    path: str
    error: str | None
    total_bytes: int
    free_bytes: int
    replicas: tuple[Replica, ...]


def describe_log_dirs(
    client: BrokerClient, partitions_of: Mapping[str, Sequence[int]] | None = None
) -> list[LogDirDescription]:
    """The log directories of all brokers, with all or the requested partitions."""
    topics = None
    if partitions_of is not None:
        topics = tuple(
            DescribableLogDirTopic(topic=TopicName(topic), partitions=tuple(i32(each) for each in partitions))
            for topic, partitions in partitions_of.items()
        )
    found = []
    for broker, connection in client.brokers().items():
        response = connection.call(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse)
        raise_for(response.error_code, f"broker {broker} does not describe its log directories", None)
        for row in response.results:
            replicas = sorted(
                Replica(topic.name, each.partition_index, each.partition_size, each.offset_lag, each.is_future_key)
                for topic in row.topics
                for each in topic.partitions
            )
            code = ErrorCode(int(row.error_code))
            error = None if code is ErrorCode.NONE else code.name
            found.append(
                LogDirDescription(
                    broker, row.log_dir, error, int(row.total_bytes), int(row.usable_bytes), tuple(replicas)
                )
            )
    return sorted(found, key=lambda each: (each.broker, each.path))
