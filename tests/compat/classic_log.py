"""What stands in a broker's log about a classic group, whoever wrote it."""

from collections.abc import Iterator
from pathlib import Path

from kafkad.core.coordinator.batches import Replayed, unpack_batch
from kafkad.core.groups.records import GroupMetadata, GroupMetadataRemoved
from kafkad.core.log.records.batch import read_header
from kafkad.wire.records.group_records import decode


def classic_records(log_dir: Path, group: str) -> Iterator[GroupMetadata | GroupMetadataRemoved]:
    """In the order of the log; offsets are left out."""
    for segment in sorted(log_dir.glob("__consumer_offsets-*/*.log")):
        log, at = memoryview(segment.read_bytes()), 0
        while at < len(log):
            size = read_header(log, at).size
            for row in unpack_batch(log[at : at + size], decode):
                record = row.record if isinstance(row, Replayed) else None
                if isinstance(record, GroupMetadata | GroupMetadataRemoved) and record.group_id == group:
                    yield record
            at += size
