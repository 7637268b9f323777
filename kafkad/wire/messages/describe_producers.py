"""The answer to DescribeProducers, version 0, by hand: a partition may have hundreds of thousands of producers."""

from collections.abc import Iterable, Sequence
from struct import Struct

from kafkad.wire.error_counts import count_error
from kafkad.wire.primitives import EMPTY_TAGS, I32, array_length, compact_string
from kafkad.wire.processes.descriptors import ProducerRow

_PRODUCER = Struct(">qiiqiqB")
"""Its tagged fields, of which there are none, included."""
_PARTITION = Struct(">ih")
_NO_TAGS = 0


def pack_partition(index: int, error: int, message: str | None, producers: Sequence[ProducerRow]) -> bytes:
    count_error(error)
    rows = [
        _PRODUCER.pack(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
            _NO_TAGS,
        )
        for each in producers
    ]
    head = _PARTITION.pack(index, error) + compact_string(message) + array_length(len(rows), flexible=True)
    return b"".join((head, *rows, EMPTY_TAGS))


def pack_response(topics: Iterable[tuple[str, Sequence[bytes]]]) -> bytes:
    """Of partitions that `pack_partition` packed."""
    packed = [
        b"".join((compact_string(name), array_length(len(rows), flexible=True), *rows, EMPTY_TAGS))
        for name, rows in topics
    ]
    return b"".join((I32.pack(0), array_length(len(packed), flexible=True), *packed, EMPTY_TAGS))
