"""The log of __consumer_offsets as a real Apache Kafka writes it: every record is read, and written alike."""

from collections.abc import Callable, Iterator
from pathlib import Path

from bench.brokers.apache import ApacheKafka
from bench.brokers.java import kafka_tool
from kafkad.core.groups.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMemberMetadataRemoved,
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupMetadata,
    GroupMetadataRemoved,
    GroupRecord,
    OffsetCommitted,
    OffsetRemoved,
)
from kafkad.core.log.records.batch import read_header
from kafkad.core.log.records.record import Record, iter_records
from kafkad.wire.records.group_records import decode, encode
from tests.compat.group_members import Member, produce

NewTopic = Callable[[str], str]


def _records(log_dir: Path) -> Iterator[Record]:
    for segment in sorted(log_dir.glob("__consumer_offsets-*/*.log")):
        data, position = memoryview(segment.read_bytes()), 0
        while position < len(data):
            header = read_header(data[position:])
            if not header.is_control:
                yield from iter_records(data[position : position + header.size])
            position += header.size


def _run(broker: ApacheKafka, name: str, *args: str) -> None:
    done = kafka_tool(name, "--bootstrap-server", broker.bootstrap, *args)
    assert done.returncode == 0, done.stderr.decode()


def test_everything_that_groups_leave_in_the_log_is_read_and_written_alike(
    apache_broker: ApacheKafka, new_topic: NewTopic
) -> None:
    topic = new_topic("logged")
    _run(apache_broker, "kafka-topics", "--create", "--topic", topic, "--partitions", "2")
    produce(apache_broker.bootstrap, topic, b"a", b"b", b"c")
    for protocol in ("classic", "consumer"):
        with Member(apache_broker.bootstrap, f"{topic}-{protocol}", topic, protocol=protocol) as member:
            assert member.read(2) == [b"a", b"b"]
    _run(apache_broker, "kafka-consumer-groups", "--delete", "--group", f"{topic}-classic")
    seen: list[GroupRecord] = []
    for row in _records(apache_broker.log_dir):
        assert row.key is not None
        record = decode(row.key, row.value)
        assert record is not None
        assert encode(record) == (row.key, row.value), record
        seen.append(record)
    assert {type(record) for record in seen} >= {
        OffsetCommitted,
        OffsetRemoved,
        GroupMetadata,
        GroupMetadataRemoved,
        ConsumerGroupMetadata,
        ConsumerGroupMemberMetadata,
        ConsumerGroupMemberMetadataRemoved,
        ConsumerGroupTargetAssignmentMetadata,
        ConsumerGroupTargetAssignmentMember,
        ConsumerGroupCurrentMemberAssignment,
    }
    commits = {(each.group_id, each.partition): each for each in seen if isinstance(each, OffsetCommitted)}
    assert commits[f"{topic}-consumer", 0].offset == 2
