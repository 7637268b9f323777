"""What do coordinators append to a partition? Transaction markers, and their own records.

The rules differ from those for clients: these batches have no sequences, and a marker is accepted even if no
transaction is open. Rejections have the error codes that Apache Kafka returns to its coordinators.
"""

from kafkad.core.log.append_info import AppendInfo
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.producers.producer_state import EndMarker
from kafkad.core.log.producers.verification import NO_GUARD
from kafkad.core.log.records.batch import read_header, set_log_append_time
from kafkad.core.log.records.end_markers import build_end_marker
from kafkad.core.log.records.record import target_codec
from kafkad.core.log.records.validation import ValidatedBatch, check_size, validate_produce
from kafkad.core.log.settings import LogConfig

_NEWEST_PRODUCE = 13
"""A coordinator may use every codec."""


def append_end_marker(
    log: PartitionLog,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    commit: bool,
    transaction_version: int,
    leader_epoch: int,
    now_ms: int,
) -> AppendInfo:
    """End the producer's transaction in this partition, if any. Raises `KafkaError`, `NoSpaceLeft`, `StorageFailed`."""
    log.producers.check_end_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
    marker = EndMarker(commit=commit, coordinator_epoch=coordinator_epoch, timestamp=now_ms)
    content = build_end_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch)
    batch = memoryview(bytearray(content))
    header = read_header(batch)
    if log.config.message_timestamp_type == "LogAppendTime":
        header = set_log_append_time(batch, 0, now_ms)
    return log.append_validated(batch, header, leader_epoch=leader_epoch, now_ms=now_ms)


def append_coordinated(
    log: PartitionLog, records: memoryview, *, leader_epoch: int, now_ms: int, guard: int = NO_GUARD
) -> AppendInfo:
    """Append a coordinator's batch. Raises `KafkaError`, `NoSpaceLeft`, `StorageFailed`.

    A batch of a producer's transaction needs the `guard` of a verification, as a client's batch does.
    """
    batch, header = _own_batch(records, log.config, now_ms)
    if header.producer_id >= 0:
        log.producers.check_coordinated(header, guard)
    return log.append_validated(batch, header, leader_epoch=leader_epoch, now_ms=now_ms)


def _own_batch(records: memoryview, config: LogConfig, now_ms: int) -> ValidatedBatch:
    """The batch is valid, as this process built it; only timestamp type and `compression.type` may change it."""
    header = read_header(records)
    if config.message_timestamp_type == "LogAppendTime" or target_codec(header, config) != header.codec_bits:
        return validate_produce(records, config, now_ms, produce_version=_NEWEST_PRODUCE)
    check_size(header.size, config)
    return ValidatedBatch(records, header)
