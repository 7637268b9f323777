"""Record batches as clients send them, and logs over the fake store: what the tests of the log start from."""

from random import Random
from typing import Any

from kafkad.core.log.append_info import AppendInfo
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.recovery.loading import LoadRequest, load_steps
from kafkad.core.log.settings import LogConfig
from kafkad.core.ports import SegmentStore
from kafkad.core.types import TopicPartition

PARTITION = TopicPartition("orders", 0)
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200, segment_index_bytes=4096)
"""Rolls after some ten batches, and indexes every other one."""
NOW = 1_700_000_000_000


def batch(
    count: int = 1,
    *,
    timestamp: int = NOW,
    size: int = 40,
    producer_id: int = -1,
    sequence: int = -1,
    epoch: int = 0,
    **fields: Any,
) -> memoryview:
    """A writable batch of `count` records whose timestamps go up by one."""
    records = [NewRecord(timestamp + number, b"k", Random(number).randbytes(size)) for number in range(count)]
    has_producer = producer_id >= 0
    return memoryview(
        bytearray(
            build_batch(
                records,
                producer_id=producer_id,
                producer_epoch=epoch if has_producer else -1,
                base_sequence=sequence if has_producer else -1,
                **fields,
            )
        )
    )


def append(log: PartitionLog, records: memoryview, *, epoch: int = 0, now_ms: int = NOW) -> AppendInfo:
    return log.append_as_leader(records, leader_epoch=epoch, now_ms=now_ms, produce_version=9)


def load(
    store: SegmentStore,
    *,
    config: LogConfig = SMALL,
    was_clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    now_ms: int = NOW,
) -> PartitionLog:
    request = LoadRequest(
        partition=PARTITION,
        config=config,
        was_clean=was_clean,
        now_ms=now_ms,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
    )
    steps = load_steps(store, request)
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            log: PartitionLog = finished.value
            return log
