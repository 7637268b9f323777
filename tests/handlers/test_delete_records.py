"""DeleteRecords in every version, compared with what Apache Kafka 4.3.0 was seen to answer."""

from dataclasses import replace
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from kafkad.handlers import delete_records
from kafkad.handlers.delete_records import PendingDeleteRecords
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.api_table import DELETE_RECORDS
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.processes.descriptors import DeletedRecords, DeleteRecordsRequest, short_topic_id
from tests.contexts import a_context
from tests.handlers.kio_calls import KioApi, versions_of
from tests.handlers.views import a_partition, a_topic, a_view

VERSIONS = versions_of(DELETE_RECORDS)
Rows = tuple[tuple[int, int], ...]


def asked(version: int, *topics: tuple[str, Rows]) -> memoryview:
    api = KioApi("delete_records", version)
    rows = tuple(
        api.part(
            "DeleteRecordsTopic",
            name=name,
            partitions=tuple(
                api.part("DeleteRecordsPartition", partition_index=index, offset=offset) for index, offset in partitions
            ),
        )
        for name, partitions in topics
    )
    return api.request(topics=rows, timeout=timedelta(seconds=1))


def answers(pending: PendingDeleteRecords, version: int) -> dict[tuple[str, int], tuple[ErrorCode, int]]:
    response = KioApi("delete_records", version).read(pending.body())
    return {
        (topic.name, row.partition_index): (row.error_code, row.low_watermark)
        for topic in response.topics
        for row in topic.partitions
    }


def two_workers() -> BrokerView:
    return a_view(
        a_topic("a", 1, a_partition(0, 10, owner=0), a_partition(1, 11, owner=1), a_partition(2, 12, owner=0)),
        a_topic("b", 2, a_partition(0, 20, owner=1)),
    )


def refused(view: BrokerView, name: str) -> tuple[ErrorCode, int]:
    pending = delete_records.pending_request(asked(2, (name, ((0, 5),))), a_context(2), view)
    assert pending.workers() == []
    return answers(pending, 2)[name, 0]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_worker_is_asked_once_about_what_it_owns(version: int) -> None:
    view = two_workers()
    body = asked(version, ("a", ((0, 5), (1, -1), (2, 7), (9, 0))), ("b", ((0, 3),)), ("none", ((0, 0),)))
    pending = delete_records.pending_request(body, a_context(version), view)
    a, b = (short_topic_id(view.image.topics[name].id.bytes) for name in ("a", "b"))

    assert sorted(pending.workers()) == [0, 1]
    assert pending.message(0, 77, 1234) == DeleteRecordsRequest(77, 1234, [(10, a, 5), (12, a, 7)])
    assert pending.message(1, 78, 1234) == DeleteRecordsRequest(78, 1234, [(11, a, -1), (20, b, 3)])

    pending.complete(0, DeletedRecords(77, [(0, 5), (1, -1)]))
    pending.fail(1)

    assert answers(pending, version) == {
        ("a", 0): (ErrorCode.none, 5),
        ("a", 1): (ErrorCode.not_leader_or_follower, -1),
        ("a", 2): (ErrorCode.offset_out_of_range, -1),
        ("a", 9): (ErrorCode.unknown_topic_or_partition, -1),
        ("b", 0): (ErrorCode.not_leader_or_follower, -1),
        ("none", 0): (ErrorCode.unknown_topic_or_partition, -1),
    }


def test_of_a_partition_named_twice_the_last_offset_counts() -> None:
    pending = delete_records.pending_request(
        asked(2, ("a", ((0, 5), (0, 6))), ("a", ((0, 7),))), a_context(2), two_workers()
    )
    message = pending.message(0, 1, 0)
    assert isinstance(message, DeleteRecordsRequest)
    assert [offset for _slot, _short_id, offset in message.partitions] == [7]


def test_the_client_says_how_long_it_may_take() -> None:
    assert delete_records.pending_request(asked(2, ("a", ((0, 5),))), a_context(2), two_workers()).timeout_ms == 1000


def test_records_of_internal_topics_stay() -> None:
    view = a_view(a_topic("__consumer_offsets", 1))
    assert refused(view, "__consumer_offsets") == (ErrorCode.invalid_topic_exception, -1)


@pytest.mark.parametrize(
    ("topic", "broker", "all_brokers", "file", "is_refused"),
    [
        ("compact", None, None, "delete", True),
        ("compact, delete", None, None, "delete", False),
        ("delete", "compact", "compact", "compact", False),
        ("delete-exported", None, None, "compact", False),
        ("compact,archive", None, None, "delete", True),
        ("archive", None, None, "compact", False),
        ("", None, None, "compact", False),
        (None, "compact", "delete", "delete", True),
        (None, None, "compact", "delete", True),
        (None, None, None, "compact", True),
        (None, None, None, "delete", False),
    ],
)
def test_records_that_are_compacted_only_are_not_deleted(
    topic: str | None, broker: str | None, all_brokers: str | None, file: str, is_refused: bool
) -> None:
    view = a_view(a_topic("a", 1, configs=None if topic is None else {"cleanup.policy": topic}))
    policies = {"1": broker, "": all_brokers}
    configs = {name: {"log.cleanup.policy": policy} for name, policy in policies.items() if policy is not None}
    view.image = replace(view.image, broker_configs=configs)
    view.cleanup_policy = file
    if is_refused:
        assert refused(view, "a") == (ErrorCode.policy_violation, -1)
    else:
        assert delete_records.pending_request(asked(2, ("a", ((0, 5),))), a_context(2), view).workers() == [0]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_off_anywhere_is_malformed(version: int) -> None:
    body = asked(version, ("a", ((0, 1),)))
    for end in range(len(body)):
        with pytest.raises(MalformedRequest):
            delete_records.pending_request(body[:end], a_context(version), a_view())
