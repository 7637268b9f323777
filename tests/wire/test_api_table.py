"""The one table, against kio's schemas and against what Apache Kafka 4.3.0 was seen to advertise."""

from importlib import import_module
from typing import Any

import pytest

from kafkad.wire.api_table import APIS, PRODUCE, Runs

KAFKA_4_3_0 = {
    "Produce": (0, 13),
    "Fetch": (4, 18),
    "ListOffsets": (1, 11),
    "Metadata": (0, 13),
    "OffsetCommit": (2, 10),
    "OffsetFetch": (1, 10),
    "FindCoordinator": (0, 6),
    "JoinGroup": (0, 9),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5),
    "SyncGroup": (0, 5),
    "DescribeGroups": (0, 6),
    "ListGroups": (0, 5),
    "ApiVersions": (0, 4),
    "CreateTopics": (2, 7),
    "DeleteTopics": (1, 6),
    "DeleteRecords": (0, 2),
    "InitProducerId": (0, 5),
    "OffsetForLeaderEpoch": (2, 4),
    "WriteTxnMarkers": (1, 2),
    "AddPartitionsToTxn": (0, 5),
    "AddOffsetsToTxn": (0, 4),
    "EndTxn": (0, 5),
    "TxnOffsetCommit": (0, 5),
    "DescribeTransactions": (0, 0),
    "ListTransactions": (0, 2),
    "DescribeConfigs": (1, 4),
    "AlterConfigs": (0, 2),
    "DescribeLogDirs": (1, 5),
    "CreatePartitions": (0, 3),
    "DeleteGroups": (0, 2),
    "ElectLeaders": (0, 2),
    "IncrementalAlterConfigs": (0, 1),
    "OffsetDelete": (0, 0),
    "AlterReplicaLogDirs": (1, 2),
    "AlterPartitionReassignments": (0, 1),
    "ListPartitionReassignments": (0, 0),
    "UpdateFeatures": (0, 2),
    "DescribeCluster": (0, 2),
    "DescribeProducers": (0, 0),
    "ConsumerGroupHeartbeat": (0, 1),
    "ConsumerGroupDescribe": (0, 1),
    "ListConfigResources": (0, 1),
    "DescribeTopicPartitions": (0, 0),
}


def schema(name: str, version: int) -> Any:
    folder = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
    return vars(import_module(f"kio.schema.{folder}.v{version}.request"))[f"{name}Request"]


def test_every_api_has_the_range_that_apache_kafka_advertises() -> None:
    assert {api.name: (api.advertised_min, api.max_version) for api in APIS.values()} == KAFKA_4_3_0


@pytest.mark.parametrize("key", sorted(APIS))
def test_keys_and_flexible_versions_are_those_of_the_schemas(key: int) -> None:
    api = APIS[key]
    for version in range(api.min_version, api.max_version + 1):
        message = schema(api.name, version)
        assert (message.__api_key__, message.__version__) == (key, version)
        assert message.__flexible__ is (version >= api.flexible_from)


def test_only_produce_is_advertised_below_what_is_served() -> None:
    below = {api.key for api in APIS.values() if api.advertised_min != api.min_version}
    assert below == {PRODUCE}
    assert APIS[PRODUCE].runs is Runs.OWNER
