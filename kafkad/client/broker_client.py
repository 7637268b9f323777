"""A small synchronous Kafka client, for the command line and the pytest fixture.

This module has connections to the brokers, topics and leaders; `client/records.py` fetches records. The client is not
for high throughput: it sends one request at a time, from one thread.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic, sleep
from typing import NamedTuple, Self, TypeVar
from uuid import UUID

from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponseTopic
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32, i32Timedelta

from kafkad.client.connection import BrokerCallFailed, BrokerConnection
from kafkad.core.errors import ErrorCode

DEFAULT_PORT = 9092
BROKER_DEFAULT = -1
"""The broker's default, as the number of partitions or replicas."""

_RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_RETRY_PAUSE_S = 0.1
_PROTOCOL = "PLAINTEXT://"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition from Metadata; `leader` is -1 without a leader."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic from Metadata; partitions are sorted by number."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class BrokerDescription(NamedTuple):
    broker: int
    host: str
    port: int
    rack: str | None
    is_controller: bool


class BrokerClient:
    """Connects to the cluster at `bootstrap` ("host:port,host:port"). Raises only BrokerCallFailed."""

    def __init__(self, bootstrap: str, timeout_s: float = 10.0) -> None:
        self._timeout_s = timeout_s
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._controller = -1
        self._cluster_id: str | None = None
        self._leaders: dict[tuple[str, int], int] = {}
        self._bootstrap = self._connect_to_any(parse_bootstrap(bootstrap))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def topics(self, names: Sequence[str] | None = None, *, create: bool = False) -> list[TopicDescription]:
        """All topics or `names`, sorted by name.

        With `create` the broker may auto-create missing topics; else a missing topic raises UNKNOWN_TOPIC_OR_PARTITION
        at once.
        """
        if create:
            return self.until_deadline(lambda: self._describe(names, create=True))
        return self._describe(names, create=False)

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, empty if it has none."""
        if self._cluster_id is None:
            self._describe([], create=False)
        return self._cluster_id or ""

    def create_topic(self, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
        """Create one topic. Either number may be BROKER_DEFAULT."""
        # Imported here, because few commands create topics, and the import is slow.
        from kio.schema.create_topics.v7.request import (  # noqa: PLC0415
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )
        from kio.schema.create_topics.v7.response import CreateTopicsResponse  # noqa: PLC0415

        topic = CreatableTopic(
            name=TopicName(name),
            num_partitions=i32(partitions),
            replication_factor=i16(replication_factor),
            assignments=(),
            configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
        )
        request = CreateTopicsRequest(topics=(topic,), timeout=self.wait)
        response = self.controller_connection().call(request, CreateTopicsResponse, wait_s=self._timeout_s)
        for result in response.topics:
            raise_for(result.error_code, f"topic {name!r} was not created", result.error_message)

    def delete_topic(self, name: str) -> None:
        # See create_topic.
        from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState  # noqa: PLC0415
        from kio.schema.delete_topics.v6.response import DeleteTopicsResponse  # noqa: PLC0415

        topic = DeleteTopicState(name=TopicName(name), topic_id=None)
        request = DeleteTopicsRequest(topics=(topic,), timeout=self.wait)
        response = self.controller_connection().call(request, DeleteTopicsResponse, wait_s=self._timeout_s)
        for result in response.responses:
            raise_for(result.error_code, f"topic {name!r} was not deleted", result.error_message)

    @property
    def wait(self) -> i32Timedelta:
        """The timeout in requests."""
        return milliseconds(int(self._timeout_s * 1000))

    def leader_of(self, topic: str, partition: int) -> BrokerConnection:
        """A connection to the leader. Raises LEADER_NOT_AVAILABLE without a leader."""
        if (topic, partition) not in self._leaders:
            self._describe([topic], create=False)
        leader = self._leaders.get((topic, partition))
        if leader is None:
            count = sum(1 for name, _ in self._leaders if name == topic)
            # No error code, so no retry: the topic's metadata always has all partitions.
            raise BrokerCallFailed(f"topic {topic!r} has no partition {partition}, it has {count}")
        if leader not in self._addresses:
            raise BrokerCallFailed(f"{topic}-{partition} has no leader", ErrorCode.LEADER_NOT_AVAILABLE)
        return self._connect(*self._addresses[leader])

    def any_broker(self) -> BrokerConnection:
        """A connection to the first reachable bootstrap server, for requests that any broker handles."""
        return self._bootstrap

    def all_brokers(self) -> list[BrokerConnection]:
        """A connection to each broker of the cluster."""
        self._describe([], create=False)
        return [self._connect(*address) for address in self._addresses.values()]

    def brokers(self) -> dict[int, BrokerConnection]:
        """A connection to each broker of the cluster, by broker id."""
        self._describe([], create=False)
        return {broker: self._connect(*address) for broker, address in sorted(self._addresses.items())}

    def describe_brokers(self) -> list[BrokerDescription]:
        """The live brokers, sorted by id."""
        request = MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
        response = self._bootstrap.call(request, MetadataResponse)
        return sorted(
            BrokerDescription(
                int(each.node_id), each.host, int(each.port), each.rack, each.node_id == response.controller_id
            )
            for each in response.brokers
        )

    def connection_to(self, host: str, port: int) -> BrokerConnection:
        return self._connect(host, port)

    def until_deadline(self, attempt: Callable[[], Result]) -> Result:
        """Retry `attempt` with refreshed metadata after retriable errors, until the timeout."""
        deadline = monotonic() + self._timeout_s
        while True:
            try:
                return attempt()
            except BrokerCallFailed as failed:
                if failed.code not in _RETRIABLE or monotonic() > deadline:
                    raise
            self._leaders.clear()
            sleep(_RETRY_PAUSE_S)

    def _describe(self, names: Sequence[str] | None, *, create: bool) -> list[TopicDescription]:
        requested = None
        if names is not None:
            requested = tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names)
        request = MetadataRequest(
            topics=requested, allow_auto_topic_creation=create, include_topic_authorized_operations=False
        )
        response = self._bootstrap.call(request, MetadataResponse)
        self._addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        self._controller = response.controller_id
        self._cluster_id = response.cluster_id
        described = [self._update_leaders(topic) for topic in response.topics]
        return sorted(described, key=lambda topic: topic.name)

    def _update_leaders(self, topic: MetadataResponseTopic) -> TopicDescription:
        if int(topic.error_code) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise BrokerCallFailed(f"topic {topic.name!r} does not exist", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        raise_for(topic.error_code, f"the partitions of topic {topic.name!r} are not available", None)
        partitions = []
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index):
            self._leaders[str(topic.name), partition.partition_index] = partition.leader_id
            partitions.append(
                PartitionDescription(
                    partition=partition.partition_index,
                    leader=partition.leader_id,
                    replicas=partition.replica_nodes,
                    isr=partition.isr_nodes,
                    offline_replicas=partition.offline_replicas,
                )
            )
        return TopicDescription(
            name=str(topic.name),
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=tuple(partitions),
        )

    def controller_connection(self) -> BrokerConnection:
        self._describe([], create=False)
        address = self._addresses.get(self._controller)
        return self._connect(*address) if address else self._bootstrap

    def _connect_to_any(self, addresses: Sequence[tuple[str, int]]) -> BrokerConnection:
        for address in addresses[:-1]:
            try:
                return self._connect(*address)
            except BrokerCallFailed:
                continue
        return self._connect(*addresses[-1])

    def _connect(self, host: str, port: int) -> BrokerConnection:
        connection = self._connections.get((host, port))
        if connection is None:
            connection = self._connections[host, port] = BrokerConnection(host, port, self._timeout_s)
        return connection


def parse_bootstrap(bootstrap: str) -> list[tuple[str, int]]:
    """ "host:port,host:port" as pairs; the port is optional, IPv6 addresses are in brackets."""
    addresses = []
    for entry in filter(None, (entry_text.strip().removeprefix(_PROTOCOL) for entry_text in bootstrap.split(","))):
        host, colon, port = entry.rpartition(":")
        if not colon or entry.endswith("]"):
            host, port = entry, str(DEFAULT_PORT)
        if not host or not port.isascii() or not port.isdigit() or len(port) > 5 or not 0 < int(port) < 65536:
            raise BrokerCallFailed(f"expected host:port as bootstrap server, found {entry!r}")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise BrokerCallFailed("expected host:port as bootstrap server, found nothing")
    return addresses


def milliseconds(count: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=count))


def raise_for(code: int, sentence: str, message: str | None) -> None:
    """Raise `sentence` with the broker's `message`, or with the name of the code, unless code is 0."""
    if code:
        error = ErrorCode(code)
        reason = error.name if not message else f"{message} ({error.name})"
        raise BrokerCallFailed(f"{sentence}: {reason}", error)
