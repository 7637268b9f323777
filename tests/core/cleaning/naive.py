"""Compaction record by record, in plain Python: what Apache Kafka's Cleaner keeps, without columns and hashes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kafkad.core.cleaning.batch_retention import LastRecord
from kafkad.core.log.records.batch import read_header
from kafkad.core.log.records.record import iter_records, record_timestamp
from kafkad.core.log.segments.transaction_index import AbortedTransaction

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Row:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True)
class Batch:
    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    flags: int
    """The attributes without the codec and the delete horizon's flag."""
    codec: int
    horizon_ms: int | None
    max_timestamp: int
    rows: tuple[Row, ...]

    @property
    def is_transactional(self) -> bool:
        return bool(self.flags & 0x10)

    @property
    def is_control(self) -> bool:
        return bool(self.flags & 0x20)


def read_batches(data: bytes) -> list[Batch]:
    batches = []
    position = 0
    while position < len(data):
        header = read_header(data, position)
        records = iter_records(memoryview(data)[position : position + header.size])
        rows = tuple(
            Row(
                header.base_offset + record.offset_delta,
                record_timestamp(header, record),
                record.key,
                record.value,
                tuple(record.headers),
            )
            for record in records
        )
        batches.append(
            Batch(
                header.base_offset,
                header.last_offset,
                header.partition_leader_epoch,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.attributes & 0x38,
                header.codec_bits,
                header.delete_horizon_ms,
                header.max_timestamp,
                rows,
            )
        )
        position += header.size
    return batches


def _outcomes(batches: Sequence[Batch], aborted: Sequence[AbortedTransaction]) -> list[bool]:
    """Which batches are aborted data, or markers of which no batch is left."""
    answer = []
    committed: set[int] = set()
    for batch in batches:
        mine = [
            entry
            for entry in aborted
            if entry.producer_id == batch.producer_id and entry.first_offset <= batch.last_offset <= entry.last_offset
        ]
        if not batch.is_control:
            is_aborted = batch.is_transactional and bool(mine)
            if batch.is_transactional and not is_aborted:
                committed.add(batch.producer_id)
            answer.append(is_aborted)
        elif not batch.rows:
            answer.append(True)
        elif batch.rows[0].key == b"\0\0\0\1":
            answer.append(batch.producer_id not in committed)
            committed.discard(batch.producer_id)
        else:
            had = any(
                other.is_transactional
                and not other.is_control
                and other.producer_id == batch.producer_id
                and entry.first_offset <= other.last_offset < batch.base_offset
                for entry in mine
                for other in batches
            )
            answer.append(not had)
    return answer


def clean(
    batches: Sequence[Batch],
    aborted: Sequence[AbortedTransaction],
    *,
    first_dirty: int,
    round_end: int,
    last_records: Mapping[int, LastRecord],
    now_ms: int,
    retention_ms: int,
) -> list[Batch]:
    """All batches are below `round_end`; every key of the dirty part is known."""
    free = _outcomes(batches, aborted)
    latest: dict[bytes, int] = {}
    for batch, gone in zip(batches, free, strict=True):
        for row in batch.rows:
            if not gone and not batch.is_control and row.key is not None and row.offset >= first_dirty:
                latest[row.key] = row.offset
    cleaned = []
    for batch, is_free in zip(batches, free, strict=True):
        passed = batch.horizon_ms is not None and batch.horizon_ms <= now_ms
        discarded = is_free and (passed or not batch.is_control)
        rows = tuple(
            row
            for row in batch.rows
            if not discarded
            and (
                batch.is_control
                or (
                    row.key is not None
                    and row.offset >= latest.get(row.key, -1)
                    and (row.value is not None or not passed)
                )
            )
        )
        if rows:
            cleaned.append(_kept(batch, rows, is_free, now_ms + retention_ms))
        elif _is_last(batch, last_records) or batch.last_offset + 1 == round_end:
            cleaned.append(replace(batch, rows=(), horizon_ms=None, codec=0))
    return cleaned


def _kept(batch: Batch, rows: tuple[Row, ...], is_free: bool, horizon_ms: int) -> Batch:
    wants = any(row.value is None for row in rows) or (is_free and batch.is_control)
    if wants and batch.horizon_ms is None:
        batch = replace(batch, horizon_ms=horizon_ms)
    if not batch.flags & 0x08 and rows != batch.rows:
        batch = replace(batch, max_timestamp=max(row.timestamp for row in rows))
    return replace(batch, rows=rows)


def _is_last(batch: Batch, last_records: Mapping[int, LastRecord]) -> bool:
    last = last_records.get(batch.producer_id) if batch.producer_id >= 0 else None
    if last is None:
        return False
    if last.last_data_offset is None:
        return batch.is_control and batch.producer_epoch == last.producer_epoch
    return batch.last_offset == last.last_data_offset
