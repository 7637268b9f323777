"""Requests of transactions, packed by hand in their oldest versions."""

from collections.abc import Mapping
from struct import Struct

from tests.simulation.requests import Partition
from tests.tools.raw_requests import PRODUCE, framed

FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 10, 22, 24, 26
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
