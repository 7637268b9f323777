"""Read topics from the KRaft metadata log (`__cluster_metadata-0`) on a broker's disk.

Replays the newest snapshot, then the later batches of the log. Records of a metadata transaction (KIP-868) count only
if it has ended: an aborted transaction is ignored, and so is an open one, which the next controller would abort. Each
node of a KRaft cluster has this log. The last records of a node that was killed may be uncommitted.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import UUID

from kafkad.cli.adoption.foreign_topics import ForeignCluster, ForeignTopic, UnreadableSource
from kafkad.core.controller.configs import ResourceType
from kafkad.core.log.records.batch import CorruptBatch, has_valid_crc
from kafkad.core.log.records.batch_scan import walk_batches
from kafkad.core.log.records.record import MalformedRecords, iter_records
from kafkad.wire.records.metadata_records import (
    ConfigChanged,
    MetadataRecord,
    PartitionAdded,
    TopicAdded,
    TopicRemoved,
    TransactionAborted,
    TransactionBegun,
    TransactionEnded,
    decode_metadata,
)
from kafkad.wire.records.record_schema import MalformedRecord

DIRECTORY = "__cluster_metadata-0"
_SNAPSHOT = re.compile(r"(\d{20})-\d{10}\.checkpoint")
_SEGMENT = re.compile(r"(\d{20})\.log")


def read_kraft_metadata(directory: Path) -> ForeignCluster:
    """`directory` is `__cluster_metadata-0`. Raises UnreadableSource."""
    replayed = _Replayed()
    try:
        names = sorted(path.name for path in directory.iterdir())
        snapshots = [found for name in names if (found := _SNAPSHOT.fullmatch(name))]
        start = 0
        if snapshots:
            start = int(snapshots[-1][1])
            replayed.apply(_records(directory / snapshots[-1][0], 0, is_whole=True))
        for name in names:
            if _SEGMENT.fullmatch(name):
                replayed.apply(_records(directory / name, start, is_whole=False))
    except (OSError, CorruptBatch, MalformedRecords, MalformedRecord) as error:
        raise UnreadableSource(f"{directory} can't be read as a KRaft metadata log: {error}") from error
    return replayed.cluster(str(directory))


class _Replayed:
    def __init__(self) -> None:
        self._names: dict[UUID, str] = {}
        self._partitions: dict[UUID, set[int]] = {}
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._in_transaction: list[MetadataRecord] | None = None
        """The records of the open transaction, which may continue in the next segment."""

    def apply(self, records: Iterable[MetadataRecord]) -> None:
        """Raises MalformedRecord for records with which Apache Kafka's controllers would exit."""
        for record in records:
            match record, self._in_transaction:
                case TransactionBegun(), None:
                    self._in_transaction = []
                case TransactionEnded(), list(held):
                    self._in_transaction = None
                    for each in held:
                        self._count(each)
                case TransactionAborted(), list():
                    self._in_transaction = None
                case TransactionBegun() | TransactionEnded() | TransactionAborted(), held:
                    state = "no" if held is None else "a"
                    raise MalformedRecord(f"{type(record).__name__} while {state} transaction is open")
                case _, None:
                    self._count(record)
                case _, list(held):
                    held.append(record)

    def _count(self, record: MetadataRecord) -> None:
        match record:
            case TopicAdded(name, topic_id):
                self._names[topic_id] = name
            case PartitionAdded(partition_id, topic_id):
                self._partitions.setdefault(topic_id, set()).add(partition_id)
            case TopicRemoved(topic_id):
                name = self._names.pop(topic_id, "")
                self._partitions.pop(topic_id, None)
                self._configs.pop((ResourceType.TOPIC, name), None)
            case ConfigChanged(resource_type, resource_name, key, value):
                configs = self._configs.setdefault((resource_type, resource_name), {})
                configs.pop(key, None)
                if value is not None:
                    configs[key] = value

    def cluster(self, source: str) -> ForeignCluster:
        topics = {
            name: ForeignTopic(
                topic_id=topic_id,
                partitions=len(self._partitions.get(topic_id, ())) or None,
                configs=self._configs.get((ResourceType.TOPIC, name), {}),
            )
            for topic_id, name in self._names.items()
        }
        return ForeignCluster(
            source=source, topics=topics, broker_configs=self._configs.get((ResourceType.BROKER, ""), {})
        )


def _records(path: Path, start_offset: int, *, is_whole: bool) -> Iterator[MetadataRecord]:
    """The records from `start_offset` on. A log may end with an incomplete batch, a snapshot may not."""
    content = path.read_bytes()
    view = memoryview(content)
    try:
        for position, header in walk_batches(lambda size, at: content[at : at + size], 0, len(content)):
            if not has_valid_crc(view, position, header):
                raise CorruptBatch(position, f"the batch does not match its checksum {header.crc}")
            if header.is_control or header.last_offset < start_offset:
                continue
            for record in iter_records(view[position : position + header.size]):
                if header.base_offset + record.offset_delta >= start_offset and record.value is not None:
                    decoded = decode_metadata(record.value)
                    if decoded is not None:
                        yield decoded
    except CorruptBatch:
        if is_whole:
            raise
