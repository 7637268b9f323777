"""The messages between a cleaner and the owner of a log about a compaction; control messages of `descriptors`."""

from collections.abc import Iterable, Iterator
from struct import Struct

import msgspec


class CleaningRequest(msgspec.Struct, tag="cleaning_request", array_like=True):
    """A cleaner requests a pass over the segments of a log below `first_uncleanable_offset`.

    The topic's cleanup `policy` has planned the pass for a log that is clean up to `first_dirty_offset`.
    """

    slot: int
    short_id: int
    policy: str
    first_dirty_offset: int
    first_uncleanable_offset: int


class SourceRow(msgspec.Struct, array_like=True):
    """A sealed segment: sizes in bytes."""

    base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int


class CleaningGranted(msgspec.Struct, tag="cleaning_granted", array_like=True):
    """The owner's response. `grant` is the id of the pass, which excludes other cleaners; NO_GRANT is a rejection.

    `later` are the base offsets of the segments after `sources`; `last_records` is packed (`pack_last_records`).
    """

    slot: int
    grant: int
    first_dirty_offset: int
    sources: list[SourceRow]
    later: list[int]
    last_records: bytes


class SwapRequest(msgspec.Struct, tag="swap_request", array_like=True):
    """The cleaner has replaced the segments with the base offsets `sources` by one synced segment."""

    slot: int
    grant: int
    sources: list[int]
    size: int
    index_bytes: int
    time_index_bytes: int
    txn_index_bytes: int
    max_timestamp: int
    offset_of_max_timestamp: int
    first_timestamp: int


class Swapped(msgspec.Struct, tag="swapped", array_like=True):
    """The owner's response; if it is not `done`, the pass is aborted."""

    slot: int
    grant: int
    done: bool


class CleaningEnded(msgspec.Struct, tag="cleaning_ended", array_like=True):
    """The pass is complete, and the log is clean up to `cleaned_offset`; or (NO_GRANT) the pass was aborted."""

    slot: int
    grant: int
    cleaned_offset: int


class CompactionsRequest(msgspec.Struct, tag="compactions_request", array_like=True):
    """The reporter requests the state of a cleaner's compacted logs; the response has the same number."""

    number: int


class CompactionFigures(msgspec.Struct, array_like=True):
    """A completed compaction; `ended_ms` is wall-clock time."""

    ended_ms: int
    seconds: float
    cleaned_offset: int
    records_read: int
    records_written: int
    bytes_read: int
    bytes_written: int


class CompactionRow(msgspec.Struct, array_like=True):
    """A compacted log. `failure` is empty, or the reason why the log can't be compacted.

    `retry_ms` is the wall-clock time of the next attempt; 0 if only a change of the configuration causes one.
    """

    topic_id: bytes
    partition: int
    state: str
    dirty_ratio: float
    cleanable_bytes: int
    last: CompactionFigures | None
    failure: str
    retry_ms: int


class Compactions(msgspec.Struct, tag="compactions", array_like=True):
    """The cleaner's response."""

    number: int
    rows: list[CompactionRow]


NO_GRANT = -1
_LAST_RECORD = Struct("<qqh")


def pack_last_records(rows: Iterable[tuple[int, int, int]]) -> bytes:
    """(producer id, offset of its last data or -1, producer epoch) each."""
    return b"".join([_LAST_RECORD.pack(*row) for row in rows])


def unpack_last_records(packed: bytes) -> Iterator[tuple[int, int, int]]:
    return _LAST_RECORD.iter_unpack(packed)
