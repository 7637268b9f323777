"""What a cleaner and the owner of a log say to each other about a compaction, as control messages of `descriptors`."""

from collections.abc import Iterable, Iterator
from struct import Struct

import msgspec


class CleaningRequest(msgspec.Struct, tag="cleaning_wanted", array_like=True):
    """A cleaner wants to write the segments of a log anew that lie below `first_uncleanable_offset`, as `policy` of the
    topic has planned it for a log that was clean up to `first_dirty_offset`.
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
    """The owner's answer. `grant` numbers the pass, which no other cleaner may make meanwhile; NO_GRANT refuses it.

    `later` are the base offsets of the segments behind `sources`; `last_records` is packed (`pack_last_records`).
    """

    slot: int
    grant: int
    first_dirty_offset: int
    sources: list[SourceRow]
    later: list[int]
    last_records: bytes


class SwapRequest(msgspec.Struct, tag="swap_wanted", array_like=True):
    """The segments with the base offsets `sources` were written anew, and what was written is on disk."""

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
    """The owner's answer; when it is not `done`, the pass is over."""

    slot: int
    grant: int
    done: bool


class CleaningEnded(msgspec.Struct, tag="cleaning_ended", array_like=True):
    """The pass is over: the log is clean up to `cleaned_offset`, or (NO_GRANT) the pass was given up."""

    slot: int
    grant: int
    cleaned_offset: int


class CompactionsRequest(msgspec.Struct, tag="compactions_wanted", array_like=True):
    """The reporter asks a cleaner about its compacted logs; the answer has the same number."""

    number: int


class CompactionFigures(msgspec.Struct, array_like=True):
    """A compaction that has come to its end, at `ended_ms` by the wall clock."""

    ended_ms: int
    seconds: float
    cleaned_offset: int
    records_read: int
    records_written: int
    bytes_read: int
    bytes_written: int


class CompactionRow(msgspec.Struct, array_like=True):
    """A compacted log. `failure` is empty unless it can't be compacted; `retry_ms` is when it is tried again, by the
    wall clock, 0 for when its configuration changes only.
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
    """The cleaner's answer."""

    number: int
    rows: list[CompactionRow]


NO_GRANT = -1
_LAST_RECORD = Struct("<qqh")


def pack_last_records(rows: Iterable[tuple[int, int, int]]) -> bytes:
    """(producer id, offset of its last data or -1, producer epoch) each."""
    return b"".join([_LAST_RECORD.pack(*row) for row in rows])


def unpack_last_records(packed: bytes) -> Iterator[tuple[int, int, int]]:
    return _LAST_RECORD.iter_unpack(packed)
