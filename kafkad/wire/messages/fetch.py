"""Packs Fetch responses, versions 4 to 18, by hand around slices of segment files.

A response is a list of pieces: bytes, and `FileSlice`s that the kernel sends from the page cache to the socket. A
response about very many partitions is packed in steps.
"""

from collections.abc import Callable, Sequence
from struct import Struct

from kafkad.wire.messages.leader_hints import LeaderHints, current_leader, response_tags
from kafkad.wire.primitives import EMPTY_TAGS, I32, array_length, compact_string, string, tagged, uvarint
from kafkad.wire.steps import STEP, Reading

FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13

_PARTITION_V4 = Struct(">ihqq")
_PARTITION_V5 = Struct(">ihqqq")
_HEAD_V1 = Struct(">i")
_HEAD_V7 = Struct(">ihi")
_EPOCH_AND_OFFSET = Struct(">iq")
NO_REPLICA = -1
_NO_PREFERRED_REPLICA = I32.pack(NO_REPLICA)


class FileSlice:
    """`length` bytes of an open segment file from byte `position`; `release` releases the file handle.

    The bytes are valid for `generation` of the log in `slot`; a truncation may replace them. `is_cached` is True when
    the bytes are certainly in the page cache.
    """

    __slots__ = ("fd", "generation", "is_cached", "length", "position", "release", "slot")

    def __init__(
        self, fd: int, position: int, length: int, release: Callable[[], None], slot: int, generation: int
    ) -> None:
        self.fd = fd
        self.position = position
        self.length = length
        self.release = release
        self.slot = slot
        self.generation = generation
        self.is_cached = False


class PartitionData:
    """One partition of a Fetch response.

    `aborted` is None for read_uncommitted and a list of (producer id, first offset) for read_committed. `diverging` is
    (epoch, end offset) if the fetcher's log diverges (KIP-595). `preferred` is the preferred read replica of the
    consumer (KIP-392), or NO_REPLICA.
    """

    __slots__ = (
        "aborted",
        "diverging",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "preferred",
        "records",
    )

    def __init__(
        self,
        partition: int,
        error: int,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: FileSlice | None = None,
        aborted: Sequence[tuple[int, int]] | None = None,
        diverging: tuple[int, int] | None = None,
        preferred: int = NO_REPLICA,
    ) -> None:
        self.partition = partition
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.aborted = aborted
        self.diverging = diverging
        self.preferred = preferred


Piece = bytes | FileSlice
TopicData = tuple[str | bytes, Sequence[PartitionData]]


def pack_response(
    version: int,
    topics: Sequence[TopicData],
    throttle_ms: int = 0,
    error: int = 0,
    session_id: int = 0,
    hints: LeaderHints | None = None,
) -> Reading[list[Piece]]:
    """The body of a Fetch response, as pieces in the order of sending: a generator that yields after every few hundred
    partitions.
    """
    flexible = version >= FLEXIBLE_FROM
    out = _Pieces()
    _pack_head(out, version, len(topics), throttle_ms, error, session_id)
    remaining = STEP
    for topic, partitions in topics:
        _pack_topic(out, topic, len(partitions), flexible=flexible)
        for data in partitions:
            if remaining == 0:
                out.join()
                yield
                remaining = STEP
            _pack_partition(out, data, version, hints and hints.leaders.get((topic, data.partition)))
            remaining -= 1
        if flexible:
            out.add(EMPTY_TAGS)
    if flexible:
        out.add(response_tags(hints))
    return out.finish()


def _pack_head(out: "_Pieces", version: int, topics: int, throttle_ms: int, error: int, session_id: int) -> None:
    out.add(_HEAD_V7.pack(throttle_ms, error, session_id) if version >= 7 else _HEAD_V1.pack(throttle_ms))
    out.add(array_length(topics, flexible=version >= FLEXIBLE_FROM))


def _pack_topic(out: "_Pieces", topic: str | bytes, partitions: int, *, flexible: bool) -> None:
    if isinstance(topic, bytes):
        out.add(topic)
    else:
        out.add(compact_string(topic) if flexible else string(topic))
    out.add(array_length(partitions, flexible=flexible))


def _pack_partition(out: "_Pieces", data: PartitionData, version: int, leader: tuple[int, int] | None) -> None:
    flexible = version >= FLEXIBLE_FROM
    fixed = (data.partition, data.error, data.high_watermark, data.last_stable_offset)
    out.add(_PARTITION_V4.pack(*fixed) if version < 5 else _PARTITION_V5.pack(*fixed, data.log_start_offset))
    if data.aborted is None:
        out.add(b"\x00" if flexible else b"\xff\xff\xff\xff")
    else:
        out.add(array_length(len(data.aborted), flexible=flexible))
        for producer_id, first_offset in data.aborted:
            out.add(_ABORTED.pack(producer_id, first_offset) + (EMPTY_TAGS if flexible else b""))
    if version >= 11:
        out.add(_NO_PREFERRED_REPLICA if data.preferred == NO_REPLICA else I32.pack(data.preferred))
    length = data.records.length if data.records is not None else 0
    out.add(uvarint(length + 1) if flexible else I32.pack(length))
    if data.records is not None:
        out.slice(data.records)
    if flexible:
        out.add(EMPTY_TAGS if data.diverging is None and leader is None else _partition_tags(data.diverging, leader))


def _partition_tags(diverging: tuple[int, int] | None, leader: tuple[int, int] | None) -> bytes:
    tags = [] if diverging is None else [tagged(0, _EPOCH_AND_OFFSET.pack(*diverging) + EMPTY_TAGS)]
    if leader is not None:
        tags.append(current_leader(1, leader))
    return uvarint(len(tags)) + b"".join(tags)


_ABORTED = Struct(">qq")


class _Pieces:
    """Joins adjacent bytes, so that a response without records is one piece."""

    __slots__ = ("_done", "_open")

    def __init__(self) -> None:
        self._done: list[Piece] = []
        self._open: list[bytes] = []

    def add(self, raw: bytes) -> None:
        self._open.append(raw)

    def slice(self, records: FileSlice) -> None:
        self._done.append(b"".join(self._open))
        self._open.clear()
        self._done.append(records)

    def join(self) -> None:
        """Join the bytes after the last records now, so that the final join is short."""
        self._open = [b"".join(self._open)]

    def finish(self) -> list[Piece]:
        if self._open:
            self._done.append(b"".join(self._open))
        return self._done


def length_of(pieces: Sequence[Piece]) -> int:
    return sum(len(piece) if isinstance(piece, bytes) else piece.length for piece in pieces)
