"""Messages between network and worker processes come out as they went in, however many are in a frame."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.types import ISOLATIONS
from kafkad.wire.processes.cleaning_messages import (
    CleaningEnded,
    CleaningGranted,
    CleaningRequest,
    SourceRow,
    Swapped,
    SwapRequest,
    pack_last_records,
)
from kafkad.wire.processes.descriptors import (
    APPEND,
    APPENDED,
    CONTROL,
    MOVED,
    WATCH,
    CleanupOrdered,
    ControlMessage,
    DeletedRecords,
    DeleteRecordsRequest,
    FilesRemoved,
    Manifest,
    ManifestRequest,
    Producers,
    ProducersRequest,
    RecordErrors,
    SegmentRow,
    SegmentsDescribed,
    SegmentsOf,
    SegmentsRequest,
    frames_of,
    pack_append,
    pack_appended,
    pack_control,
    pack_moved,
    pack_watch,
    short_topic_id,
    unpack_appended,
    unpack_appends,
    unpack_control,
    unpack_moved,
    unpack_watches,
    watch_key,
    watched_slot,
)
from kafkad.wire.processes.follower_progress import (
    FOLLOWER_FETCHED,
    FollowerFetched,
    pack_follower_fetched,
    unpack_followers_fetched,
)

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
I16, I64 = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**63), 2**63 - 1)
Four = tuple[int, int, int, int]
SLICES = st.lists(st.tuples(U32, U64, U64, U32), max_size=5)
TRANSACTIONAL_IDS = st.none() | st.text(max_size=40).filter(lambda text: text.isprintable())
APPENDS = st.lists(
    st.tuples(U64, st.integers(-(2**63), 2**63 - 1), I16, st.integers(0, 2**15 - 1), SLICES, TRANSACTIONAL_IDS),
    max_size=4,
)
RESULTS = st.lists(st.tuples(I16, I64, I64, I64), max_size=5)


@given(APPENDS)
def test_requests_to_append_share_a_frame(requests: list[tuple[int, int, int, int, list[Four], str | None]]) -> None:
    frame = bytes((APPEND,)) + b"".join(pack_append(*request) for request in requests)
    assert list(unpack_appends(frame)) == requests


@given(st.lists(st.tuples(U64, RESULTS), max_size=4))
def test_answers_to_them_share_a_frame(answers: list[tuple[int, list[Four]]]) -> None:
    frame = bytes((APPENDED,)) + b"".join(pack_appended(*answer) for answer in answers)
    assert list(unpack_appended(frame)) == answers


@given(st.integers(0, 2**20 - 1), st.sampled_from(ISOLATIONS))
def test_a_slot_can_be_watched_in_three_ways(slot: int, isolation: int) -> None:
    key = watch_key(slot, isolation)
    assert watched_slot(key) == (slot, isolation)
    assert unpack_moved(pack_moved([key])) == [key]


@given(st.lists(st.tuples(U32, U64, I64), max_size=5))
def test_watches_share_a_frame(watches: list[tuple[int, int, int]]) -> None:
    assert unpack_watches(bytes((WATCH,)) + b"".join(pack_watch(*watch) for watch in watches)) == watches


@given(st.lists(U32, max_size=5))
def test_slots_that_moved_share_a_frame(slots: list[int]) -> None:
    frame = pack_moved(slots)
    assert (frame[0], unpack_moved(frame)) == (MOVED, slots)


I32 = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(st.builds(FollowerFetched, U32, U32, I32, I32, I64, I64, I64, I64), max_size=4))
def test_what_followers_have_shares_a_frame(rows: list[FollowerFetched]) -> None:
    frame = bytes((FOLLOWER_FETCHED,)) + b"".join(map(pack_follower_fetched, rows))
    assert unpack_followers_fetched(frame) == rows


@pytest.mark.parametrize(
    "message",
    [
        RecordErrors(7, 2, "text", [(0, None), (3, "why")]),
        ManifestRequest(5, 2**64 - 1),
        ManifestRequest(5, 9, True),
        ManifestRequest(5, 9, False, 2**62, 7),
        FilesRemoved([3, 2**32 - 1]),
        Manifest(5, 9, True, 3, [0, 100], [(0, 0), (2, 50)]),
        DeleteRecordsRequest(7, 1000, [(1, 2, -1), (3, 4, 50)]),
        DeletedRecords(7, [(0, 10), (6, -1)]),
        ProducersRequest(7, [(1, 2)]),
        Producers(7, [(0, 2, b"rows"), (6, 0, b"")]),
        SegmentsRequest(7, [(1, 2)]),
        SegmentsDescribed(7, [SegmentsOf(1, 0, 10, 12, 9, -1, [SegmentRow(0, 500, 1, 2, True, 1)])]),
        CleanupOrdered(1, 2, True, -1, 9, "retention"),
        CleaningRequest(1, 2, "compact", 100, 500),
        CleaningGranted(1, 7, 100, [SourceRow(0, 500, 8, 12)], [500], pack_last_records([(1, -1, 0)])),
        SwapRequest(1, 7, [0, 200], 400, 8, 12, 34, 1000, 250, 900),
        Swapped(1, 7, True),
        CleaningEnded(1, 7, 500),
    ],
    ids=lambda message: type(message).__name__,
)
def test_every_rarer_message_comes_out_as_it_went_in(message: ControlMessage) -> None:
    frame = pack_control(message)
    assert (frame[0], unpack_control(frame)) == (CONTROL, message)


def test_the_tag_of_a_topic_is_half_of_its_id() -> None:
    assert short_topic_id(bytes(range(16))) == int.from_bytes(bytes(range(8, 16)), "little")


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1), st.integers(2, 200))
def test_entries_are_cut_into_frames_that_fit_and_stay_in_order(entries: list[bytes], limit: int) -> None:
    frames = list(frames_of(b"k", entries, limit))
    assert b"".join(frame[1:] for frame in frames) == b"".join(entries)
    assert all(frame[:1] == b"k" and len(frame) > 1 for frame in frames)
    # Only what is alone too large for any frame is in one that is too large.
    assert all(len(frame) <= limit or frame[1:] in entries for frame in frames)
    assert all(len(a) + len(b) - 1 > limit for a, b in pairwise(frames))
