"""The partition of a coordinator: its batches are appended to a log like batches of other topics.

They are not validated, because the leader itself creates them. Failures become error codes for `Runtime`, and the
partition or its directory goes offline as with any other append.
"""

from collections.abc import Iterator

from kafkad.core.coordinator.shard import Moment
from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.log.coordinated import append_coordinated
from kafkad.core.log.producers.verification import NO_GUARD
from kafkad.core.log.records.batch import HEADER_SIZE, CorruptBatch, read_header, read_size
from kafkad.core.log.segments.log_segments import Segments
from kafkad.core.log.segments.segment import Segment
from kafkad.core.ports import NoSpaceLeft
from kafkad.processes.worker.outbox import FAILURES, Outbox, log_no_space
from kafkad.processes.worker.owned import OwnedPartition

LOAD_BYTES = 1 << 20
"""The size of a read when a shard is loaded; a larger batch is read whole."""
_AS_IT_IS = ("producer", "uncompressed")
"""The values of compression.type that write an uncompressed batch unchanged."""


class CoordinatorPartition:
    """See `CoordinatorLog`."""

    def __init__(self, owned: OwnedPartition, outbox: Outbox) -> None:
        self.owned = owned
        self.guard = NO_GUARD
        """The verification guard of the present batch, if it is transactional."""
        self._outbox = outbox

    @property
    def log_end_offset(self) -> int:
        return self.owned.log.log_end_offset if self.owned.log is not None else 0

    @property
    def high_watermark(self) -> int:
        return self.owned.log.high_watermark.offset if self.owned.log is not None else 0

    @property
    def most_bytes(self) -> int | None:
        config = self.owned.log.config if self.owned.log is not None else None
        return config.max_message_bytes if config is not None and config.compression_type in _AS_IT_IS else None

    def append(self, batch: bytearray, moment: Moment) -> int:
        owned = self.owned
        partition_log = owned.log
        if partition_log is None or not owned.leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if owned.in_sync < owned.min_in_sync(partition_log):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            info = append_coordinated(
                partition_log,
                memoryview(batch),
                leader_epoch=owned.leader_epoch,
                now_ms=moment.wall_ms,
                guard=self.guard,
            )
        except NoSpaceLeft as no_space:
            log_no_space(owned, "coordinator cannot append", no_space)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from no_space
        except FAILURES as failure:
            self._outbox.failed(owned, failure)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from failure
        owned.messages_in += info.last_offset - info.base_offset + 1
        owned.bytes_in += len(batch)
        self._outbox.touched(owned)
        return info.base_offset

    def batches(self) -> Iterator[memoryview]:
        """All batches, also those appended meanwhile. If compaction replaces the segment, looks up the position of the
        next batch. Raises `CorruptBatch`.
        """
        partition_log = self.owned.log
        assert partition_log is not None
        segments = partition_log.segments
        segment: Segment | None = segments[0]
        position, next_offset = 0, segments[0].base_offset
        while segment is not None:
            if segments.floor(segment.base_offset) is not segment:
                segment = segments.floor(next_offset) or segments[0]
                position = segment.position_of(next_offset)
            if position >= segment.size:
                segment, position = _following(segments, segment), 0
                continue
            for batch in _batches_at(segment, position):
                next_offset = read_header(batch).next_offset
                position += len(batch)
                yield batch


def _batches_at(segment: Segment, position: int) -> Iterator[memoryview]:
    """The whole batches of one read from byte `position`, at least one. Raises `CorruptBatch`."""
    left = segment.size - position
    window = memoryview(segment.log.read_at(min(LOAD_BYTES, left), position))
    if len(window) >= HEADER_SIZE and len(window) < (size := read_size(window)) <= left:
        window = memoryview(segment.log.read_at(size, position))
    at = 0
    while len(window) - at >= HEADER_SIZE:
        size = read_size(window, at)
        if size < HEADER_SIZE or at + size > len(window):
            break
        yield window[at : at + size]
        at += size
    if at == 0:
        raise CorruptBatch(position, f"no batch of the segment from offset {segment.base_offset}")


def _following(segments: Segments, segment: Segment) -> Segment | None:
    """The next segment: segments may have been added or removed meanwhile."""
    return next((later for later in segments if later.base_offset > segment.base_offset), None)
