"""Fetch responses as kio reads them, in every version that is served; records come from files."""

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from kafkad.wire.api_table import FETCH
from kafkad.wire.messages.fetch import FileSlice, PartitionData, Piece, TopicData, length_of, pack_response
from kafkad.wire.messages.leader_hints import FETCH_FROM, LeaderHints
from tests.handlers.kio_calls import KioApi, versions_of
from tests.handlers.stepping import finished

VERSIONS = versions_of(FETCH)
TOPIC_IDS_FROM = 13
TOPIC_ID = UUID(int=77)
CONTENT = b"0123456789" * 30


@pytest.fixture
def fd(tmp_path: Any) -> Iterator[int]:
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    opened = os.open(path, os.O_RDONLY)
    yield opened
    os.close(opened)


def records(fd: int, position: int, length: int) -> FileSlice:
    return FileSlice(fd, position, length, lambda: None, 0, 1)


def sent(pieces: list[Piece]) -> bytes:
    body = b"".join(
        piece if isinstance(piece, bytes) else os.pread(piece.fd, piece.length, piece.position) for piece in pieces
    )
    assert length_of(pieces) == len(body)
    return body


def packed(version: int, topics: list[TopicData], **values: Any) -> list[Piece]:
    return finished(pack_response(version, topics, **values))


def topic(version: int, *partitions: PartitionData) -> TopicData:
    return (TOPIC_ID.bytes if version >= TOPIC_IDS_FROM else "topic"), partitions


def answer(version: int, *partitions: PartitionData, **values: Any) -> Any:
    return KioApi("fetch", version).read(sent(packed(version, [topic(version, *partitions)], **values)))


@pytest.mark.parametrize("version", VERSIONS)
def test_records_of_files_and_numbers_are_read_as_they_are_meant(version: int, fd: int) -> None:
    full = PartitionData(0, 0, 100, 90, 10, records(fd, 5, 20), [(1000, 12), (1001, 15)])
    other = PartitionData(1, 0, 7, 7, 0, records(fd, 100, 200))
    empty = PartitionData(2, 0, 7, 7, 0, None, ())
    failed = PartitionData(3, 1)

    response = answer(version, full, other, empty, failed, throttle_ms=250, error=0, session_id=9)

    assert response.throttle_time == timedelta(milliseconds=250)
    (told,) = response.responses
    assert (told.topic_id if version >= TOPIC_IDS_FROM else told.topic) == (
        TOPIC_ID if version >= TOPIC_IDS_FROM else "topic"
    )
    rows = told.partitions
    assert [bytes(row.records or b"") for row in rows] == [CONTENT[5:25], CONTENT[100:300], b"", b""]
    assert all(row.records is not None for row in rows)
    assert [(row.partition_index, row.error_code.value, row.high_watermark) for row in rows] == [
        (0, 0, 100),
        (1, 0, 7),
        (2, 0, 7),
        (3, 1, -1),
    ]
    assert [row.last_stable_offset for row in rows] == [90, 7, 7, -1]
    aborted = [
        None
        if row.aborted_transactions is None
        else [(each.producer_id, each.first_offset) for each in row.aborted_transactions]
        for row in rows
    ]
    assert aborted == [[(1000, 12), (1001, 15)], None, [], None]
    if version >= 5:
        assert [row.log_start_offset for row in rows] == [10, 0, 0, -1]
    if version >= 7:
        assert (response.error_code.value, response.session_id) == (0, 9)
    if version >= 11:
        assert {row.preferred_read_replica for row in rows} == {-1}


@pytest.mark.parametrize("version", range(12, 19))
def test_where_a_log_parted_is_told_in_a_tagged_field(version: int) -> None:
    response = answer(version, PartitionData(0, 0, 9, 9, 0, None, None, (3, 400)), PartitionData(1, 0, 9, 9, 0))
    diverged, plain = response.responses[0].partitions
    assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (3, 400)
    assert (plain.diverging_epoch.epoch, plain.diverging_epoch.end_offset) == (-1, -1)


@pytest.mark.parametrize("version", range(7, 19))
def test_an_error_of_the_session_has_no_topics(version: int) -> None:
    response = KioApi("fetch", version).read(sent(packed(version, [], error=70)))
    assert (response.error_code.value, response.session_id, response.responses) == (70, 0, ())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_without_records_is_one_piece(version: int) -> None:
    pieces = packed(version, [topic(version, PartitionData(0, 0, 1, 1, 0), PartitionData(1, 3))])
    assert len(pieces) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_records_lie_between_pieces_of_bytes(version: int, fd: int) -> None:
    first, second = records(fd, 0, 10), records(fd, 10, 20)
    pieces = packed(version, [topic(version, PartitionData(0, 0, records=first), PartitionData(1, 0, records=second))])
    assert [type(piece) for piece in pieces[:4]] == [bytes, FileSlice, bytes, FileSlice]
    assert (pieces[1], pieces[3]) == (first, second)


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= FETCH_FROM])
def test_a_refused_partition_says_who_leads_it_and_where_that_is(version: int) -> None:
    hints = LeaderHints({(TOPIC_ID.bytes, 1): (3, 7)}, [(3, "host", 9092, None), (4, "other", 9093, "rack")])
    response = answer(version, PartitionData(0, 0, 7, 7, 0), PartitionData(1, 6, diverging=(2, 5)), hints=hints)
    fine, refused = response.responses[0].partitions
    assert (fine.current_leader.leader_id, fine.current_leader.leader_epoch) == (-1, -1)
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (3, 7)
    assert (refused.diverging_epoch.epoch, refused.diverging_epoch.end_offset) == (2, 5)
    nodes = [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
    assert nodes == [(3, "host", 9092, None), (4, "other", 9093, "rack")]
