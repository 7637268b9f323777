"""The table of this broker's APIs, with their versions and the process that handles each.

ApiVersions, the router and the documentation use this table. A range includes only completely implemented versions. The
ranges are the same as in Apache Kafka 4.3.0.
"""

from dataclasses import dataclass, replace
from enum import Enum

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
LEADER_AND_ISR = 4
STOP_REPLICA = 5
UPDATE_METADATA = 6
CONTROLLED_SHUTDOWN = 7
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
FIND_COORDINATOR = 10
JOIN_GROUP = 11
HEARTBEAT = 12
LEAVE_GROUP = 13
SYNC_GROUP = 14
DESCRIBE_GROUPS = 15
LIST_GROUPS = 16
API_VERSIONS = 18
CREATE_TOPICS = 19
DELETE_TOPICS = 20
DELETE_RECORDS = 21
INIT_PRODUCER_ID = 22
OFFSET_FOR_LEADER_EPOCH = 23
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
WRITE_TXN_MARKERS = 27
TXN_OFFSET_COMMIT = 28
DESCRIBE_CONFIGS = 32
ALTER_CONFIGS = 33
ALTER_REPLICA_LOG_DIRS = 34
DESCRIBE_LOG_DIRS = 35
CREATE_PARTITIONS = 37
DELETE_GROUPS = 42
ELECT_LEADERS = 43
INCREMENTAL_ALTER_CONFIGS = 44
ALTER_PARTITION_REASSIGNMENTS = 45
LIST_PARTITION_REASSIGNMENTS = 46
OFFSET_DELETE = 47
ALTER_PARTITION = 56
UPDATE_FEATURES = 57
DESCRIBE_CLUSTER = 60
DESCRIBE_PRODUCERS = 61
DESCRIBE_TRANSACTIONS = 65
LIST_TRANSACTIONS = 66
ALLOCATE_PRODUCER_IDS = 67
CONSUMER_GROUP_HEARTBEAT = 68
CONSUMER_GROUP_DESCRIBE = 69
LIST_CONFIG_RESOURCES = 74
DESCRIBE_TOPIC_PARTITIONS = 75


class Runs(Enum):
    """The process that handles a request; docs/apis.md explains the names."""

    NETWORK = "network process"
    OWNER = "owner"
    CONTROLLER = "controller process"
    COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True)
class Api:
    """One API with versions `min_version`–`max_version`; flexible headers begin at `flexible_from`.

    `advertised_min` differs from `min_version` for Produce (trap: librdkafka silently disables compression if Produce 0
    is missing; Apache Kafka 4 advertises 0 to 2 and rejects them).
    """

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    runs: Runs
    advertised_min: int


def _api(
    key: int, name: str, versions: tuple[int, int], flexible_from: int, runs: Runs, advertised_min: int = -1
) -> Api:
    low, high = versions
    return Api(key, name, low, high, flexible_from, runs, low if advertised_min < 0 else advertised_min)


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(PRODUCE, "Produce", (3, 13), 9, Runs.OWNER, advertised_min=0),
        _api(FETCH, "Fetch", (4, 18), 12, Runs.NETWORK),
        _api(LIST_OFFSETS, "ListOffsets", (1, 11), 6, Runs.NETWORK),
        _api(METADATA, "Metadata", (0, 13), 9, Runs.NETWORK),
        _api(OFFSET_COMMIT, "OffsetCommit", (2, 10), 8, Runs.COORDINATOR),
        _api(OFFSET_FETCH, "OffsetFetch", (1, 10), 6, Runs.COORDINATOR),
        _api(FIND_COORDINATOR, "FindCoordinator", (0, 6), 3, Runs.NETWORK),
        _api(JOIN_GROUP, "JoinGroup", (0, 9), 6, Runs.COORDINATOR),
        _api(HEARTBEAT, "Heartbeat", (0, 4), 4, Runs.COORDINATOR),
        _api(LEAVE_GROUP, "LeaveGroup", (0, 5), 4, Runs.COORDINATOR),
        _api(SYNC_GROUP, "SyncGroup", (0, 5), 4, Runs.COORDINATOR),
        _api(DESCRIBE_GROUPS, "DescribeGroups", (0, 6), 5, Runs.COORDINATOR),
        _api(LIST_GROUPS, "ListGroups", (0, 5), 3, Runs.COORDINATOR),
        _api(API_VERSIONS, "ApiVersions", (0, 4), 3, Runs.NETWORK),
        _api(CREATE_TOPICS, "CreateTopics", (2, 7), 5, Runs.CONTROLLER),
        _api(DELETE_TOPICS, "DeleteTopics", (1, 6), 4, Runs.CONTROLLER),
        _api(DELETE_RECORDS, "DeleteRecords", (0, 2), 2, Runs.OWNER),
        _api(INIT_PRODUCER_ID, "InitProducerId", (0, 5), 2, Runs.CONTROLLER),
        _api(OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", (2, 4), 4, Runs.NETWORK),
        _api(ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", (0, 5), 3, Runs.COORDINATOR),
        _api(ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", (0, 4), 3, Runs.COORDINATOR),
        _api(END_TXN, "EndTxn", (0, 5), 3, Runs.COORDINATOR),
        _api(WRITE_TXN_MARKERS, "WriteTxnMarkers", (1, 2), 1, Runs.OWNER),
        _api(TXN_OFFSET_COMMIT, "TxnOffsetCommit", (0, 5), 3, Runs.COORDINATOR),
        _api(DESCRIBE_CONFIGS, "DescribeConfigs", (1, 4), 4, Runs.CONTROLLER),
        _api(ALTER_CONFIGS, "AlterConfigs", (0, 2), 2, Runs.CONTROLLER),
        _api(ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", (1, 2), 2, Runs.CONTROLLER),
        _api(DESCRIBE_LOG_DIRS, "DescribeLogDirs", (1, 5), 2, Runs.NETWORK),
        _api(CREATE_PARTITIONS, "CreatePartitions", (0, 3), 2, Runs.CONTROLLER),
        _api(DELETE_GROUPS, "DeleteGroups", (0, 2), 2, Runs.COORDINATOR),
        _api(ELECT_LEADERS, "ElectLeaders", (0, 2), 2, Runs.CONTROLLER),
        _api(INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", (0, 1), 1, Runs.CONTROLLER),
        _api(ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", (0, 1), 0, Runs.CONTROLLER),
        _api(LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", (0, 0), 0, Runs.CONTROLLER),
        _api(OFFSET_DELETE, "OffsetDelete", (0, 0), 1, Runs.COORDINATOR),
        _api(UPDATE_FEATURES, "UpdateFeatures", (0, 2), 0, Runs.CONTROLLER),
        _api(DESCRIBE_CLUSTER, "DescribeCluster", (0, 2), 0, Runs.NETWORK),
        _api(DESCRIBE_PRODUCERS, "DescribeProducers", (0, 0), 0, Runs.OWNER),
        _api(DESCRIBE_TRANSACTIONS, "DescribeTransactions", (0, 0), 0, Runs.COORDINATOR),
        _api(LIST_TRANSACTIONS, "ListTransactions", (0, 2), 0, Runs.COORDINATOR),
        _api(CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", (0, 1), 0, Runs.COORDINATOR),
        _api(CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", (0, 1), 0, Runs.COORDINATOR),
        _api(LIST_CONFIG_RESOURCES, "ListConfigResources", (0, 1), 0, Runs.CONTROLLER),
        _api(DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", (0, 0), 0, Runs.NETWORK),
    )
}
"""By API key. A request with another key closes the connection, as in Apache Kafka."""

CLUSTER_APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(LEADER_AND_ISR, "LeaderAndIsr", (0, 7), 4, Runs.CONTROLLER),
        _api(STOP_REPLICA, "StopReplica", (0, 4), 2, Runs.CONTROLLER),
        _api(UPDATE_METADATA, "UpdateMetadata", (0, 8), 6, Runs.CONTROLLER),
        _api(CONTROLLED_SHUTDOWN, "ControlledShutdown", (1, 3), 3, Runs.CONTROLLER, advertised_min=0),
        _api(ALTER_PARTITION, "AlterPartition", (0, 3), 0, Runs.CONTROLLER),
        _api(ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", (0, 0), 0, Runs.CONTROLLER),
    )
}
"""The requests between brokers of a cluster on ZooKeeper. ControlledShutdown 0, which has a different header, is not
supported: no broker since Apache Kafka 0.9 sends it."""


_FORWARDED = {ALTER_PARTITION_REASSIGNMENTS: 0, UPDATE_FEATURES: 1}
"""The newest versions that any controller on ZooKeeper supports, if newer versions exist: requests are forwarded to
the controller, which may be a broker of Apache Kafka."""


def serve_cluster() -> None:
    """Serve `CLUSTER_APIS` too. Called before the fork, so that it applies to all processes."""
    APIS.update(CLUSTER_APIS)
    APIS.update({key: replace(APIS[key], max_version=newest) for key, newest in _FORWARDED.items()})


def malformed(api_key: int, version: int, error: object) -> str:
    """The reason for closing the connection of a malformed request."""
    return f"a malformed {APIS[api_key].name} request (version {version}): {error}"


def unencodable(api_key: int, version: int, error: object) -> str:
    """The log text of a completed request whose response can't be encoded."""
    return f"the response to {APIS[api_key].name} (version {version}) can't be encoded: {error}"
