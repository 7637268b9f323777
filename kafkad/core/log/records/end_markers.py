"""How does a transaction end in the log? The control batch with its COMMIT or ABORT record.

The transaction coordinator requests markers; recovery and followers read them to rebuild the producer state.
"""

import struct

from kafkad.core.log.producers.producer_state import EndMarker
from kafkad.core.log.records.batch import read_header
from kafkad.core.log.records.record import (
    MalformedRecords,
    NewRecord,
    build_batch,
    iter_without_headers,
    record_timestamp,
)

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


def read_end_marker(batch: memoryview) -> EndMarker | None:
    """The transaction marker in a control batch; None for other control records, or no record."""
    for record in iter_without_headers(batch):
        key, value = record.key or b"", record.value or b""
        if len(key) < _KEY.size:
            raise MalformedRecords(f"a control record has a key of {len(key)} bytes")
        kind = _KEY.unpack_from(key)[1]
        if kind not in (_ABORT, _COMMIT):
            return None
        if len(value) < _VALUE.size:
            raise MalformedRecords(f"a transaction marker has a value of {len(value)} bytes")
        return EndMarker(
            commit=kind == _COMMIT,
            coordinator_epoch=_VALUE.unpack_from(value)[1],
            timestamp=record_timestamp(read_header(batch), record),
        )
    return None


def build_end_marker(
    marker: EndMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a transaction."""
    key = _KEY.pack(0, _COMMIT if marker.commit else _ABORT)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    return build_batch(
        [NewRecord(marker.timestamp, key, value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
