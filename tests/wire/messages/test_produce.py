"""Produce requests as kio writes them, responses as kio reads them, in every version that is served."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.wire.api_table import PRODUCE
from kafkad.wire.messages.leader_hints import PRODUCE_FROM, LeaderHints
from kafkad.wire.messages.produce import TOPIC_IDS_FROM, PartitionResult, ProduceRequest, pack_response, read_request
from kafkad.wire.primitives import MalformedRequest
from tests.handlers.kio_calls import KioApi, versions_of

VERSIONS = versions_of(PRODUCE)
HEADER = b"header"
Topics = list[tuple[str, list[tuple[int, bytes | None]]]]
TOPIC_LISTS = st.lists(
    st.tuples(
        st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1, max_size=30),
        st.lists(st.tuples(st.integers(0, 2**31 - 1), st.none() | st.binary(max_size=300)), max_size=4),
    ),
    max_size=4,
)


def id_of(name: str) -> UUID:
    return UUID(bytes=name.encode().ljust(16, b"\x01")[:16])


def written(version: int, topics: Topics, *, acks: int = -1, transactional_id: str | None = None) -> memoryview:
    """A frame: something before the body, the request as kio writes it."""
    api = KioApi("produce", version)
    data = tuple(
        api.part(
            "TopicProduceData",
            name=name,
            topic_id=id_of(name),
            partition_data=tuple(
                api.part("PartitionProduceData", index=index, records=records) for index, records in partitions
            ),
        )
        for name, partitions in topics
    )
    body = api.request(
        transactional_id=transactional_id, acks=acks, timeout=timedelta(milliseconds=1500), topic_data=data
    )
    return memoryview(HEADER + bytes(body))


def found(frame: memoryview, request: ProduceRequest) -> list[tuple[str | bytes, list[tuple[int, bytes | None]]]]:
    return [
        (
            topic,
            [
                (index, None if length < 0 else bytes(frame[start : start + length]))
                for index, start, length in partitions
            ],
        )
        for topic, partitions in request.topics
    ]


@pytest.mark.parametrize("version", VERSIONS)
@given(topics=TOPIC_LISTS, acks=st.sampled_from([-1, 0, 1, 7]), transactional_id=st.none() | st.text(max_size=20))
def test_records_are_found_where_they_are(
    version: int, topics: Topics, acks: int, transactional_id: str | None
) -> None:
    frame = written(version, topics, acks=acks, transactional_id=transactional_id)
    request = read_request(frame, len(HEADER), version)
    assert (request.acks, request.timeout_ms, request.transactional_id) == (acks, 1500, transactional_id)
    by_id = version >= TOPIC_IDS_FROM
    assert found(frame, request) == [(id_of(name).bytes if by_id else name, rows) for name, rows in topics]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_off_anywhere_before_its_last_tags_is_malformed(version: int) -> None:
    frame = written(version, [("topic", [(0, b"records"), (1, b"more")]), ("other", [(0, b"x")])])
    last = len(frame) - (1 if version >= 9 else 0)
    for end in range(len(HEADER), last):
        with pytest.raises(MalformedRequest):
            read_request(frame[:end], len(HEADER), version)


@pytest.mark.parametrize("version", range(3, 9))
def test_records_that_claim_to_be_longer_than_the_request_are_malformed(version: int) -> None:
    frame = bytes(written(version, [("topic", [(0, b"records")])]))
    longer = frame.replace(b"\x00\x00\x00\x07records", b"\x7f\xff\xff\xffrecords")
    assert longer != frame
    with pytest.raises(MalformedRequest):
        read_request(memoryview(longer), len(HEADER), version)


@pytest.mark.parametrize("version", range(9, 14))
def test_records_that_claim_to_be_longer_than_the_request_are_malformed_in_flexible_versions(version: int) -> None:
    frame = bytes(written(version, [("topic", [(0, b"records")])]))
    longer = frame.replace(b"\x08records", b"\xff\xff\xff\xff\x0frecords")
    assert longer != frame
    with pytest.raises(MalformedRequest):
        read_request(memoryview(longer), len(HEADER), version)


@pytest.mark.parametrize("version", VERSIONS)
@given(body=st.binary(max_size=100))
def test_random_bytes_are_a_request_or_malformed(version: int, body: bytes) -> None:
    try:
        request = read_request(memoryview(body), 0, version)
    except MalformedRequest:
        return
    for _topic, partitions in request.topics:
        assert all(length < 0 or start + length <= len(body) for _index, start, length in partitions)


def times(milliseconds: int) -> datetime | None:
    return None if milliseconds < 0 else datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


@pytest.mark.parametrize("version", VERSIONS)
def test_results_are_read_by_kio_as_they_are_meant(version: int) -> None:
    topic = id_of("topic").bytes if version >= TOPIC_IDS_FROM else "topic"
    plain = PartitionResult(0, 0, 123, 1_700_000_000_000, 45)
    refused = PartitionResult(1, 87, message="why", record_errors=[(0, None), (3, "bad")])

    body = pack_response(version, [(topic, [plain, refused]), (topic, [])], 250)

    response = KioApi("produce", version).read(body)
    assert response.throttle_time == timedelta(milliseconds=250)
    first, second = response.responses
    assert second.partition_responses == ()
    for each in (first, second):
        assert (each.topic_id if version >= TOPIC_IDS_FROM else each.name) == (
            id_of("topic") if version >= TOPIC_IDS_FROM else "topic"
        )
    told, failed = first.partition_responses
    assert (told.index, told.error_code.value, told.base_offset) == (0, 0, 123)
    assert told.log_append_time == times(1_700_000_000_000)
    assert (failed.index, failed.error_code.value, failed.base_offset, failed.log_append_time) == (1, 87, -1, None)
    if version >= 5:
        assert (told.log_start_offset, failed.log_start_offset) == (45, -1)
    if version >= 8:
        assert (told.record_errors, told.error_message, failed.error_message) == ((), None, "why")
        assert [(row.batch_index, row.batch_index_error_message) for row in failed.record_errors] == [
            (0, None),
            (3, "bad"),
        ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_is_byte_for_byte_what_kio_writes(version: int) -> None:
    topic = id_of("topic").bytes if version >= TOPIC_IDS_FROM else "topic"
    body = pack_response(version, [(topic, [PartitionResult(2, 0, 9, -1, 3)])], 0)
    api = KioApi("produce", version)
    response: Any = api.read(body)
    row = response.responses[0].partition_responses[0]
    values = {name: getattr(row, name) for name in ("index", "error_code", "base_offset", "log_append_time")}
    values |= {"log_start_offset": 3, "record_errors": (), "error_message": None}
    partition = api.response_part("PartitionProduceResponse", **values)
    again = api.response_part(
        "TopicProduceResponse", name="topic", topic_id=id_of("topic"), partition_responses=(partition,)
    )
    assert api.response(responses=(again,), throttle_time=timedelta(0)) == body


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= PRODUCE_FROM])
def test_a_refused_partition_says_who_leads_it_and_where_that_is(version: int) -> None:
    topic = id_of("one").bytes if version >= TOPIC_IDS_FROM else "one"
    hints = LeaderHints({(topic, 1): (3, 7)}, [(3, "host", 9092, "rack")])
    for first in (PartitionResult(0, 0), PartitionResult(0, 87, message="why", record_errors=[(2, "this")])):
        body = pack_response(version, [(topic, [first, PartitionResult(1, 6)])], 0, hints)
        response = KioApi("produce", version).read(body)
        fine, refused = response.responses[0].partition_responses
        assert (fine.current_leader.leader_id, refused.error_code) == (-1, 6)
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (3, 7)
        nodes = [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
        assert nodes == [(3, "host", 9092, "rack")]
