"""Requests of transactions, packed by hand in their oldest versions."""

from collections.abc import Mapping
from struct import Struct

from tests.simulation.requests import Partition
from tests.tools.raw_requests import PRODUCE, framed

FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 10, 22, 24, 26
ADD_OFFSETS, TXN_OFFSET_COMMIT, OFFSET_FETCH = 25, 28, 9
NOT_COORDINATOR = 16
TRANSACTION = 1
TIMEOUT_MS = 20_000
_I16, _I32, _I64 = Struct(">h"), Struct(">i"), Struct(">q")
_PRODUCER = Struct(">qh")


def _text(text: str) -> bytes:
    return _I16.pack(len(text)) + text.encode()


def find_coordinator(name: str, correlation: int) -> bytes:
    """FindCoordinator 1 of a transactional id."""
    return framed(FIND_COORDINATOR, 1, _text(name) + bytes((TRANSACTION,)), correlation)


def read_coordinator(body: bytes) -> int:
    """The error."""
    return int(_I16.unpack_from(body, 4)[0])


def init_producer_id(name: str, correlation: int) -> bytes:
    """InitProducerId 0."""
    return framed(INIT_PRODUCER_ID, 0, _text(name) + _I32.pack(TIMEOUT_MS), correlation)


def read_producer(body: bytes) -> tuple[int, int, int]:
    """(error, producer id, epoch)."""
    error, producer_id, epoch = Struct(">hqh").unpack_from(body, 4)
    return error, producer_id, epoch


def add_partition(name: str, producer: tuple[int, int], partition: Partition, correlation: int) -> bytes:
    """AddPartitionsToTxn 0 of one partition."""
    row = _text(partition[0]) + _I32.pack(1) + _I32.pack(partition[1])
    return framed(ADD_PARTITIONS, 0, _text(name) + _PRODUCER.pack(*producer) + _I32.pack(1) + row, correlation)


def read_added(body: bytes) -> int:
    """The error of the only partition."""
    return int(_I16.unpack_from(body, len(body) - 2)[0])


def produce(name: str, rows: Mapping[Partition, bytes], correlation: int) -> bytes:
    """Produce 7 in a transaction."""
    parts = [_text(name), _I16.pack(-1), _I32.pack(30_000), _I32.pack(len(rows))]
    for (topic, number), records in rows.items():
        parts += (_text(topic), _I32.pack(1), _I32.pack(number), _I32.pack(len(records)), records)
    return framed(PRODUCE, 7, b"".join(parts), correlation)


def end_txn(name: str, producer: tuple[int, int], committed: bool, correlation: int) -> bytes:
    """EndTxn 0."""
    body = _text(name) + _PRODUCER.pack(*producer) + bytes((committed,))
    return framed(END_TXN, 0, body, correlation)


def read_ended(body: bytes) -> int:
    """The error."""
    return int(_I16.unpack_from(body, 4)[0])


def add_offsets(name: str, producer: tuple[int, int], group: str, correlation: int) -> bytes:
    """AddOffsetsToTxn 0."""
    return framed(ADD_OFFSETS, 0, _text(name) + _PRODUCER.pack(*producer) + _text(group), correlation)


def read_added_offsets(body: bytes) -> int:
    """The error."""
    return int(_I16.unpack_from(body, 4)[0])


def commit_txn_offset(
    name: str, group: str, producer: tuple[int, int], partition: Partition, offset: int, correlation: int
) -> bytes:
    """TxnOffsetCommit 0 of one partition."""
    head = _text(name) + _text(group) + _PRODUCER.pack(*producer)
    row = _text(partition[0]) + _I32.pack(1) + _I32.pack(partition[1]) + _I64.pack(offset) + _text("")
    return framed(TXN_OFFSET_COMMIT, 0, head + _I32.pack(1) + row, correlation)


def read_txn_offset(body: bytes) -> int:
    """The error of the only partition."""
    return int(_I16.unpack_from(body, len(body) - 2)[0])


def _compact(text: str) -> bytes:
    return bytes((len(text) + 1,)) + text.encode()


def fetch_stable_offset(group: str, partition: Partition, correlation: int) -> bytes:
    """OffsetFetch 7 of one partition, which waits for the end of open transactions; its header has tagged fields."""
    rows = b"\x02" + _compact(partition[0]) + b"\x02" + _I32.pack(partition[1]) + b"\x00"
    return framed(OFFSET_FETCH, 7, b"\x00" + _compact(group) + rows + b"\x01\x00", correlation)


def read_stable_offset(body: bytes) -> tuple[int, int]:
    """(error of the group or of its only partition, offset)."""
    (error,) = _I16.unpack_from(body, len(body) - 3)
    at = 1 + 4 + 1
    if error or body[at - 1] < 2:
        return error or NOT_COORDINATOR, -1
    at += body[at] + 1 + 4
    (offset,) = _I64.unpack_from(body, at)
    return int(_I16.unpack_from(body, len(body) - 3 - 2 - 2)[0]), offset
