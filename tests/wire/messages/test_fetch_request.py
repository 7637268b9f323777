"""Fetch requests as kio writes them, in every version that is served."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.wire.api_table import FETCH
from kafkad.wire.messages.fetch_request import CONSUMER, FetchedPartition, FetchRequest, read_request
from kafkad.wire.primitives import MalformedRequest
from tests.handlers.kio_calls import KioApi, versions_of
from tests.handlers.stepping import finished

VERSIONS = versions_of(FETCH)
HEADER = b"header"
TOPIC_IDS_FROM, SESSIONS_FROM, FLEXIBLE_FROM, REPLICA_STATE_FROM = 13, 7, 12, 15
I32, I64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
ROWS = st.tuples(I32, I32, I64, I32, I64, I32)
NAMES = st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1, max_size=16)
TOPICS = st.lists(st.tuples(NAMES, st.lists(ROWS, max_size=4)), max_size=4)
FORGOTTEN = st.lists(st.tuples(NAMES, st.lists(I32, max_size=4)), max_size=3)
Row = tuple[int, int, int, int, int, int]


def id_of(name: str) -> UUID:
    return UUID(bytes=name.encode().ljust(16, b"\x01")[:16])


def written(
    version: int,
    topics: list[tuple[str, list[Row]]],
    forgotten: list[tuple[str, list[int]]] = [],  # noqa: B006 - never changed
    *,
    replica: int = CONSUMER,
    **values: Any,
) -> memoryview:
    api = KioApi("fetch", version)
    rows = tuple(
        api.part(
            "FetchTopic",
            topic=name,
            topic_id=id_of(name),
            partitions=tuple(_partition(api, row) for row in partitions),
        )
        for name, partitions in topics
    )
    left = (
        tuple(
            api.part("ForgottenTopic", topic=name, topic_id=id_of(name), partitions=tuple(indexes))
            for name, indexes in forgotten
        )
        if version >= SESSIONS_FROM
        else ()
    )
    settings: dict[str, Any] = {"max_bytes": 1000, "isolation_level": 1, "session_id": 0, "session_epoch": -1} | values
    if version >= REPLICA_STATE_FROM and replica != CONSUMER:
        settings["replica_state"] = api.part("ReplicaState", replica_id=replica, replica_epoch=5)
    body = api.request(
        replica_id=replica,
        max_wait=timedelta(milliseconds=500),
        min_bytes=1,
        topics=rows,
        forgotten_topics_data=left,
        rack_id="rack",
        **settings,
    )
    return memoryview(HEADER + bytes(body))


def _partition(api: KioApi, row: Row) -> Any:
    index, epoch, offset, last_epoch, log_start, max_bytes = row
    return api.part(
        "FetchPartition",
        partition=index,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=log_start,
        partition_max_bytes=max_bytes,
    )


def expected(row: Row, version: int) -> Row:
    index, epoch, offset, last_epoch, log_start, max_bytes = row
    return (
        index,
        epoch if version >= 9 else -1,
        offset,
        last_epoch if version >= 12 else -1,
        log_start if version >= 5 else -1,
        max_bytes,
    )


def found(row: FetchedPartition) -> Row:
    return (
        row.partition,
        row.current_leader_epoch,
        row.fetch_offset,
        row.last_fetched_epoch,
        row.log_start_offset,
        row.max_bytes,
    )


def read(frame: memoryview, version: int) -> FetchRequest:
    return finished(read_request(frame, len(HEADER), version))


@pytest.mark.parametrize("version", VERSIONS)
@given(topics=TOPICS, forgotten=FORGOTTEN)
def test_everything_a_version_can_say_is_read(
    version: int, topics: list[tuple[str, list[Row]]], forgotten: list[tuple[str, list[int]]]
) -> None:
    request = read(written(version, topics, forgotten, session_id=77, session_epoch=3), version)

    def key(name: str) -> str | bytes:
        return id_of(name).bytes if version >= TOPIC_IDS_FROM else name

    assert [(topic, [found(row) for row in rows]) for topic, rows in request.topics] == [
        (key(name), [expected(row, version) for row in rows]) for name, rows in topics
    ]
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level) == (500, 1, 1000, 1)
    assert request.replica_id == CONSUMER
    if version >= SESSIONS_FROM:
        assert (request.session_id, request.session_epoch) == (77, 3)
        assert request.forgotten == [(key(name), indexes) for name, indexes in forgotten]
    else:
        assert (request.session_id, request.session_epoch, request.forgotten) == (0, -1, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_followers_say_who_they_are(version: int) -> None:
    frame = written(version, [("topic", [(0, -1, 5, -1, 0, 100)])], replica=3)
    assert read(frame, version).replica_id == 3


@pytest.mark.parametrize("version", [17, 18])
def test_tagged_fields_of_partitions_are_stepped_over(version: int) -> None:
    api = KioApi("fetch", version)
    tagged = api.part(
        "FetchPartition",
        partition=4,
        fetch_offset=9,
        partition_max_bytes=100,
        replica_directory_id=UUID(int=5),
        high_watermark=8,
    )
    topic = api.part("FetchTopic", topic_id=UUID(int=1), partitions=(tagged, tagged))
    body = api.request(
        max_wait=timedelta(0),
        min_bytes=1,
        max_bytes=1,
        isolation_level=0,
        session_id=0,
        session_epoch=0,
        topics=(topic,),
        forgotten_topics_data=(),
        rack_id="",
        cluster_id="cluster",
    )
    ((_, rows),) = finished(read_request(body, 0, version)).topics
    assert [(row.partition, row.fetch_offset) for row in rows] == [(4, 9), (4, 9)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_off_anywhere_is_malformed(version: int) -> None:
    frame = written(version, [("topic", [(0, -1, 5, -1, 0, 100)])], [("other", [1, 2])])
    for end in range(len(HEADER), len(frame)):
        with pytest.raises(MalformedRequest):
            read(frame[:end], version)


@pytest.mark.parametrize("version", VERSIONS)
@given(body=st.binary(max_size=120))
def test_random_bytes_are_a_request_or_malformed(version: int, body: bytes) -> None:
    try:
        finished(read_request(memoryview(body), 0, version))
    except MalformedRequest:
        return
