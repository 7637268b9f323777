"""Records of __consumer_offsets: our bytes beside those that Apache Kafka's own classes write, in every version."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from bench.brokers.java import class_path
from bench.brokers.processes import WITHIN_S
from kafkad.core.groups.records import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupMember,
    GroupMetadata,
    GroupRecord,
    OffsetCommitted,
    PartitionRacks,
    SubscribedTopic,
    TopicPartitions,
)
from kafkad.wire.records.group_records import decode, encode

_SOURCE = Path(__file__).parent / "java_sources" / "RecordWriter.java"
_PACKAGE = "org.apache.kafka.coordinator.group.generated"
_ID = UUID("6f8a1c52-93d4-4c1e-b0a7-1122334455ff")
_KAFKA_ID = base64.urlsafe_b64encode(_ID.bytes).decode().rstrip("=")
_LONG = "ü" * 100


class Case(NamedTuple):
    """A record, and the same in the JSON of Kafka's converters. `is_written`: this version is what we write."""

    name: str
    key: dict[str, Any]
    version: int
    value: dict[str, Any]
    record: GroupRecord
    is_written: bool = True


def _commit(version: int, **fields: Any) -> Case:
    values = {"offset": 2**40, "metadata": _LONG, "commitTimestamp": 1_700_000_000_000}
    record = OffsetCommitted("grüppe", "orders", 70_000, 2**40, metadata=_LONG, commit_timestamp=1_700_000_000_000)
    if version >= 3:
        values["leaderEpoch"] = 9
        record = record._replace(leader_epoch=9)
    if version == 1:
        values["expireTimestamp"] = 1_800_000_000_000
        record = record._replace(expire_timestamp=1_800_000_000_000)
    if version >= 4:
        values["topicId"] = _KAFKA_ID
        record = record._replace(topic_id=_ID)
    values |= fields
    key = {"group": "grüppe", "topic": "orders", "partition": 70_000}
    return Case("OffsetCommit", key, version, values, record, is_written=version in (1, 4))


def _classic_group(version: int, *, is_empty: bool) -> Case:
    member: dict[str, Any] = {"memberId": "m-1", "clientId": "c", "clientHost": "/10.0.0.1", "sessionTimeout": 45_000}
    member |= {"subscription": "AAEC", "assignment": ""}
    known = GroupMember(
        member_id="m-1",
        client_id="c",
        client_host="/10.0.0.1",
        session_timeout=45_000,
        subscription=b"\0\1\2",
        assignment=b"",
        group_instance_id="static" if version >= 3 else None,
        rebalance_timeout=300_000 if version >= 1 else -1,
    )
    if version >= 1:
        member["rebalanceTimeout"] = 300_000
    if version >= 3:
        member["groupInstanceId"] = "static"
    value: dict[str, Any] = {"protocolType": "consumer", "generation": 7}
    value |= {"protocol": None if is_empty else "range", "leader": None if is_empty else "m-1"}
    value["members"] = [] if is_empty else [member, member | {"memberId": "m-2"}]
    if version >= 2:
        value["currentStateTimestamp"] = 1_700_000_000_000
    second = GroupMember(**{name: getattr(known, name) for name in known.__dataclass_fields__} | {"member_id": "m-2"})
    record = GroupMetadata(
        group_id="g",
        protocol_type="consumer",
        generation=7,
        protocol=None if is_empty else "range",
        leader=None if is_empty else "m-1",
        current_state_timestamp=1_700_000_000_000 if version >= 2 else -1,
        members=() if is_empty else (known, second),
    )
    return Case("GroupMetadata", {"group": "g"}, version, value, record, is_written=version == 3)


def _member(classic: ClassicMemberMetadata | None, classic_json: Any) -> Case:
    value = {
        "instanceId": "i",
        "rackId": None,
        "clientId": "c",
        "clientHost": "/10.0.0.1",
        "subscribedTopicNames": ["a", "b"],
        "subscribedTopicRegex": "a.*",
        "rebalanceTimeoutMs": 300_000,
        "serverAssignor": "uniform",
        "classicMemberMetadata": classic_json,
    }
    record = ConsumerGroupMemberMetadata(
        group_id="g",
        member_id="m",
        instance_id="i",
        rack_id=None,
        client_id="c",
        client_host="/10.0.0.1",
        subscribed_topic_names=("a", "b"),
        subscribed_topic_regex="a.*",
        rebalance_timeout_ms=300_000,
        server_assignor="uniform",
        classic_member_metadata=classic,
    )
    return Case("ConsumerGroupMemberMetadata", {"groupId": "g", "memberId": "m"}, 0, value, record)


def _current(epochs: tuple[int, ...] | None) -> Case:
    partitions = {"topicId": _KAFKA_ID, "partitions": [1, 2], "assignmentEpochs": epochs}
    value: dict[str, Any] = {"memberEpoch": 5, "previousMemberEpoch": 4, "state": 2}
    value |= {"assignedPartitions": [partitions], "partitionsPendingRevocation": []}
    record = ConsumerGroupCurrentMemberAssignment(
        group_id="g",
        member_id="m",
        member_epoch=5,
        previous_member_epoch=4,
        state=2,
        assigned_partitions=(AssignedPartitions(topic_id=_ID, partitions=(1, 2), assignment_epochs=epochs),),
        partitions_pending_revocation=(),
    )
    return Case("ConsumerGroupCurrentMemberAssignment", {"groupId": "g", "memberId": "m"}, 0, value, record)


_LEGACY = Case(
    "LegacyOffsetCommit",
    {"group": "g", "topic": "t", "partition": 3},
    0,
    {"offset": 11, "metadata": "", "commitTimestamp": 12},
    OffsetCommitted("g", "t", 3, 11, commit_timestamp=12),
    is_written=False,
)
_PARTITION_METADATA = Case(
    "ConsumerGroupPartitionMetadata",
    {"groupId": "g"},
    0,
    {
        "topics": [
            {
                "topicId": _KAFKA_ID,
                "topicName": "a",
                "numPartitions": 2,
                "partitionMetadata": [{"partition": 1, "racks": ["r1", "r2"]}],
            }
        ]
    },
    ConsumerGroupPartitionMetadata(
        group_id="g",
        topics=(
            SubscribedTopic(
                topic_id=_ID,
                topic_name="a",
                num_partitions=2,
                partition_metadata=(PartitionRacks(partition=1, racks=("r1", "r2")),),
            ),
        ),
    ),
)
_TARGET = Case(
    "ConsumerGroupTargetAssignmentMember",
    {"groupId": "g", "memberId": "m"},
    0,
    {"topicPartitions": [{"topicId": _KAFKA_ID, "partitions": [0, 5]}]},
    ConsumerGroupTargetAssignmentMember(
        group_id="g", member_id="m", topic_partitions=(TopicPartitions(topic_id=_ID, partitions=(0, 5)),)
    ),
)
_PATTERN = Case(
    "ConsumerGroupRegularExpression",
    {"groupId": "g", "regularExpression": "a.*"},
    0,
    {"topics": ["a", "ab"], "version": 55, "timestamp": 66},
    ConsumerGroupRegularExpression(
        group_id="g", regular_expression="a.*", topics=("a", "ab"), version=55, timestamp=66
    ),
)
_PROTOCOLS = {"sessionTimeoutMs": 45_000, "supportedProtocols": [{"name": "range", "metadata": "AAE="}]}
_SPOKEN = ClassicMemberMetadata(
    session_timeout_ms=45_000, supported_protocols=(ClassicProtocol(name="range", metadata=b"\0\1"),)
)
_NOTHING_SPOKEN = ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())
_ZERO = base64.urlsafe_b64encode(bytes(16)).decode().rstrip("=")


def _epoch(value: dict[str, Any], record: GroupRecord) -> Case:
    return Case(type(record).__name__, {"groupId": "g"}, 0, value, record)


CASES = [
    *(_commit(version) for version in range(5)),
    _commit(4, topicId=_ZERO)._replace(
        record=OffsetCommitted("grüppe", "orders", 70_000, 2**40, 9, _LONG, 1_700_000_000_000)
    ),
    _LEGACY,
    *(_classic_group(version, is_empty=is_empty) for version in range(5) for is_empty in (False, True)),
    _epoch({"epoch": 3, "metadataHash": 2**50}, ConsumerGroupMetadata(group_id="g", epoch=3, metadata_hash=2**50)),
    _epoch({"epoch": 3}, ConsumerGroupMetadata(group_id="g", epoch=3)),
    _PARTITION_METADATA,
    _member(None, None),
    _member(_SPOKEN, _PROTOCOLS),
    _member(_NOTHING_SPOKEN, {"sessionTimeoutMs": 0, "supportedProtocols": []}),
    _epoch(
        {"assignmentEpoch": 3, "assignmentTimestamp": 44},
        ConsumerGroupTargetAssignmentMetadata(group_id="g", assignment_epoch=3, assignment_timestamp=44),
    ),
    _epoch({"assignmentEpoch": 3}, ConsumerGroupTargetAssignmentMetadata(group_id="g", assignment_epoch=3)),
    _TARGET,
    _current(()),
    _current(None),
    _current((4, 5)),
    _PATTERN,
]


@pytest.fixture(scope="module")
def written() -> list[tuple[bytes, bytes]]:
    """Key and value of each case, by Apache Kafka."""
    lines = []
    for case in CASES:
        lines.append(f"{_PACKAGE} {case.name}Key key {json.dumps(case.key)}")
        lines.append(f"{_PACKAGE} {case.name}Value {case.version} {json.dumps(case.value)}")
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *class_path(), str(_SOURCE)]
    done = subprocess.run(command, input="\n".join(lines).encode(), capture_output=True, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr.decode()
    made = [base64.b64decode(line) for line in done.stdout.splitlines()]
    return list(zip(made[::2], made[1::2], strict=True))


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{case.name}-{case.version}" for case in CASES])
def test_what_kafka_writes_is_read_and_written_alike(number: int, written: list[tuple[bytes, bytes]]) -> None:
    case, (key, value) = CASES[number], written[number]
    record = decode(key, value)
    assert record == case.record
    assert type(record) is type(case.record)
    assert record is not None
    if case.is_written:
        assert encode(record) == (key, value)
    removed = decode(key, None)
    assert removed is not None
    if case is not _LEGACY:
        assert encode(removed) == (key, None)
