"""The records of `__transaction_state` as bytes: TransactionLogKey 0, TransactionLogValue 0 and 1.

The record contains the version of its value. Each transaction writes three of these records, so they are packed by
hand. Optional fields of version 1 are omitted if they have their default.
"""

from collections.abc import Iterator
from struct import Struct, error

from kafkad.core.transactions.records import AnyTransactionRecord, Partition, TransactionRecord, TransactionRemoved
from kafkad.core.transactions.state import TransactionState
from kafkad.core.types import NO_PRODUCER_ID
from kafkad.wire.primitives import (
    EMPTY_TAGS,
    I16,
    I32,
    I64,
    MalformedRequest,
    array_length,
    compact_string,
    read_compact_string,
    read_slice,
    read_string,
    read_uvarint,
    skip_tags,
    string,
    tagged,
    uvarint,
)
from kafkad.wire.records.record_schema import MalformedRecord

_KEY_VERSION = 0
_FLEXIBLE = 1
_VERSIONS = (0, _FLEXIBLE)
_HEAD = Struct(">hqhib")
"""Version of the value, producer id, producer epoch, timeout, state."""
_TIMES = Struct(">qq")
"""Last update, start."""
_NO_PARTITIONS = {0: I32.pack(-1), _FLEXIBLE: b"\x00"}
_PREVIOUS_PRODUCER_ID, _NEXT_PRODUCER_ID, _CLIENT_TRANSACTION_VERSION = range(3)


def encode(record: AnyTransactionRecord) -> tuple[bytes, bytes | None]:
    """Key and value; the value of a tombstone is None."""
    key = I16.pack(_KEY_VERSION) + string(record.transactional_id)
    return key, _encode_value(record) if isinstance(record, TransactionRecord) else None


def decode(key: bytes, value: bytes | None) -> AnyTransactionRecord | None:
    """The record; None for an unknown version of the key. Raises MalformedRecord."""
    try:
        (version,) = I16.unpack_from(key)
        if version != _KEY_VERSION:
            return None
        transactional_id, _ = read_string(memoryview(key), I16.size)
        if transactional_id is None:
            raise MalformedRecord("the transactional id in the key is null")
        if value is None:
            return TransactionRemoved(transactional_id=transactional_id)
        return _decode_value(transactional_id, memoryview(value))
    except (error, ValueError, MalformedRequest) as broken:
        size = 0 if value is None else len(value)
        raise MalformedRecord(f"a transaction record of {len(key)} and {size} bytes: {broken}") from broken


def _encode_value(record: TransactionRecord) -> bytes:
    version = record.value_version
    head = _HEAD.pack(version, record.producer_id, record.producer_epoch, record.timeout_ms, record.state)
    times = _TIMES.pack(record.last_update_ms, record.start_ms)
    partitions = _encode_partitions(record, version)
    return head + partitions + times + (_encode_tags(record) if version == _FLEXIBLE else b"")


def _encode_partitions(record: TransactionRecord, version: int) -> bytes:
    if record.state is TransactionState.EMPTY:
        return _NO_PARTITIONS[version]
    by_topic: dict[str, list[int]] = {}
    for topic, index in record.partitions:
        by_topic.setdefault(topic, []).append(index)
    is_flexible = version == _FLEXIBLE
    write_name, end = (compact_string, EMPTY_TAGS) if is_flexible else (string, b"")
    rows = [
        write_name(topic) + array_length(len(indexes), flexible=is_flexible) + b"".join(map(I32.pack, indexes)) + end
        for topic, indexes in by_topic.items()
    ]
    return array_length(len(rows), flexible=is_flexible) + b"".join(rows)


def _encode_tags(record: TransactionRecord) -> bytes:
    rows = []
    if record.previous_producer_id != NO_PRODUCER_ID:
        rows.append(tagged(_PREVIOUS_PRODUCER_ID, I64.pack(record.previous_producer_id)))
    if record.next_producer_id != NO_PRODUCER_ID:
        rows.append(tagged(_NEXT_PRODUCER_ID, I64.pack(record.next_producer_id)))
    if record.client_transaction_version != 0:
        rows.append(tagged(_CLIENT_TRANSACTION_VERSION, I16.pack(record.client_transaction_version)))
    return uvarint(len(rows)) + b"".join(rows)


def _decode_value(transactional_id: str, data: memoryview) -> TransactionRecord:
    version, producer_id, epoch, timeout_ms, state = _HEAD.unpack_from(data)
    if version not in _VERSIONS:
        raise MalformedRecord(f"the value of a transaction has version {version}; supported are 0 and 1")
    partitions, at = _decode_partitions(data, _HEAD.size, is_flexible=version == _FLEXIBLE)
    last_update_ms, start_ms = _TIMES.unpack_from(data, at)
    tags = dict(_read_tags(data, at + _TIMES.size)) if version == _FLEXIBLE else {}
    return TransactionRecord(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=TransactionState(state),
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        partitions=partitions,
        previous_producer_id=_number(I64, tags.get(_PREVIOUS_PRODUCER_ID), NO_PRODUCER_ID),
        next_producer_id=_number(I64, tags.get(_NEXT_PRODUCER_ID), NO_PRODUCER_ID),
        client_transaction_version=_number(I16, tags.get(_CLIENT_TRANSACTION_VERSION), 0),
        value_version=version,
    )


def _number(form: Struct, content: memoryview | None, default: int) -> int:
    return default if content is None else int(form.unpack_from(content)[0])


def _decode_partitions(data: memoryview, at: int, *, is_flexible: bool) -> tuple[tuple[Partition, ...], int]:
    topics, at = _read_length(data, at, is_flexible=is_flexible)
    partitions: list[Partition] = []
    for _ in range(topics):
        name, at = read_compact_string(data, at) if is_flexible else read_string(data, at)
        count, at = _read_length(data, at, is_flexible=is_flexible)
        raw, at = read_slice(data, at, I32.size * count)
        if name is None:
            raise MalformedRecord("a topic name of a transaction is null")
        partitions.extend((name, index) for (index,) in I32.iter_unpack(raw))
        if is_flexible:
            at = skip_tags(data, at)
    return tuple(partitions), at


def _read_length(data: memoryview, at: int, *, is_flexible: bool) -> tuple[int, int]:
    """Null is read as 0: a transactional id without a transaction has no partitions."""
    if is_flexible:
        count, at = read_uvarint(data, at)
        return max(0, count - 1), at
    return max(0, I32.unpack_from(data, at)[0]), at + I32.size


def _read_tags(data: memoryview, at: int) -> Iterator[tuple[int, memoryview]]:
    count, at = read_uvarint(data, at)
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        content, at = read_slice(data, at, size)
        yield tag, content
