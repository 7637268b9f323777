"""Metadata as a client of every version reads it."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafkad.core.controller.image import NO_LOG_DIR
from kafkad.handlers import metadata
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.api_table import METADATA
from kafkad.wire.messages.metadata import read_request
from kafkad.wire.primitives import MalformedRequest
from tests.contexts import REACHED, a_context
from tests.handlers.kio_calls import KioApi, versions_of
from tests.handlers.stepping import finished
from tests.handlers.views import CLUSTER, a_broker, a_partition, a_topic, a_view, an_image

VERSIONS = versions_of(METADATA)
NOT_REQUESTED = -(2**31)


def asked(version: int, *names: str | None, ids: tuple[UUID, ...] = (), **flags: bool) -> memoryview:
    api = KioApi("metadata", version)
    topics = [api.part("MetadataRequestTopic", name=name, topic_id=None) for name in names]
    topics += [api.part("MetadataRequestTopic", name=None, topic_id=each) for each in ids]
    values = {
        "allow_auto_topic_creation": True,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    } | flags
    return api.request(topics=tuple(topics), **values)


def all_topics(version: int) -> memoryview:
    api = KioApi("metadata", version)
    return api.request(
        topics=() if version == 0 else None,
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def answer(
    body: memoryview,
    version: int,
    view: BrokerView,
    errors: dict[str, int] | None = None,
    advertised: tuple[str, int] = REACHED,
) -> Any:
    context = a_context(version, advertised=advertised)
    request = finished(read_request(body, version))
    return KioApi("metadata", version).read(finished(metadata.response(request, context, view, errors or {})))


def names(response: Any) -> list[str | None]:
    return [topic.name for topic in response.topics]


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_told_in_every_version(version: int) -> None:
    partitions = (a_partition(0, 5, leader_epoch=3), a_partition(1, 6, leader_epoch=4))
    view = a_view(a_topic("text", 7, *partitions), a_topic("__consumer_offsets", 8), brokers=(a_broker(1, "r1"),))

    response = answer(all_topics(version), version, view)

    text, offsets = response.topics
    assert (text.name, text.error_code, offsets.name) == ("text", ErrorCode.none, "__consumer_offsets")
    assert [row.partition_index for row in text.partitions] == [0, 1]
    assert [(row.leader_id, row.replica_nodes, row.isr_nodes) for row in text.partitions] == [(1, (1,), (1,))] * 2
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "reached.example", 9092)
    if version >= 1:
        assert (text.is_internal, offsets.is_internal) == (False, True)
        assert (response.controller_id, broker.rack) == (1, "r1")
    if version >= 2:
        assert response.cluster_id == CLUSTER
    if version >= 5:
        assert text.partitions[0].offline_replicas == ()
    if version >= 7:
        assert [row.leader_epoch for row in text.partitions] == [3, 4]
    if version >= 8:
        assert text.topic_authorized_operations == NOT_REQUESTED
    if 8 <= version <= 10:
        assert response.cluster_authorized_operations == NOT_REQUESTED
    if version >= 10:
        assert text.topic_id == UUID(int=7)
    if version >= 13:
        assert response.error_code is ErrorCode.none


@pytest.mark.parametrize("version", range(1, 14))
def test_an_empty_list_asks_for_no_topic_from_version_1_on(version: int) -> None:
    assert answer(asked(version), version, a_view(a_topic("text", 1))).topics == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_broker_that_is_asked_is_always_among_the_brokers(version: int) -> None:
    """Kafka's AdminClient says "Failed to find brokers" where none is."""
    response = answer(asked(version), version, a_view(brokers=()), advertised=("h", 1))
    assert [(each.host, each.port) for each in response.brokers] == [("h", 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_topics_named_are_told_and_the_missing_ones_last(version: int) -> None:
    view = a_view(a_topic("a", 1), a_topic("b", 2))

    response = answer(asked(version, "no", "b", "b", "il/legal"), version, view)

    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics] == [
        ("b", ErrorCode.none, 1),
        ("no", ErrorCode.unknown_topic_or_partition, 0),
        ("il/legal", ErrorCode.invalid_topic_exception, 0),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_legal_unknown_names_are_to_be_created(version: int) -> None:
    view = a_view(a_topic("a", 1))
    assert metadata.unknown_topics(
        finished(read_request(asked(version, "a", "new", "il/legal", "x" * 250), version)), a_context(version), view
    ) == {"new"}


@pytest.mark.parametrize("version", range(4, 14))
def test_nothing_is_created_when_the_client_forbids_it(version: int) -> None:
    body = asked(version, "new", allow_auto_topic_creation=False)
    assert metadata.unknown_topics(finished(read_request(body, version)), a_context(version), a_view()) == frozenset()


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_created_when_all_topics_are_asked_for(version: int) -> None:
    request = finished(read_request(all_topics(version), version))
    assert metadata.unknown_topics(request, a_context(version), a_view()) == frozenset()


def test_why_a_topic_was_not_created_is_told() -> None:
    errors = {"big": ErrorCode.invalid_replication_factor.value, "made": 0}
    response = answer(asked(9, "big", "made"), 9, a_view(), errors)
    assert [topic.error_code for topic in response.topics] == [
        ErrorCode.invalid_replication_factor,
        ErrorCode.leader_not_available,
    ]


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id(version: int) -> None:
    view = a_view(a_topic("a", 1), a_topic("b", 2))
    body = asked(version, ids=(UUID(int=2), UUID(int=9)), include_topic_authorized_operations=True)

    unknown, found = answer(body, version, view).topics

    assert (unknown.error_code, unknown.name, unknown.topic_id) == (ErrorCode.unknown_topic_id, None, UUID(int=9))
    assert unknown.topic_authorized_operations == NOT_REQUESTED
    assert (found.error_code, found.name, found.topic_id) == (ErrorCode.none, "b", UUID(int=2))
    assert metadata.unknown_topics(finished(read_request(body, version)), a_context(version), view) == frozenset()


@pytest.mark.parametrize("version", [10, 11])
def test_ids_in_versions_that_only_have_the_field_for_them_are_refused(version: int) -> None:
    view = a_view(a_topic("a", 1))
    response = answer(asked(version, ids=(UUID(int=1),)), version, view)
    assert (response.brokers, response.controller_id) == ((), -1)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("", ErrorCode.invalid_request)]


def test_a_topic_with_neither_name_nor_id_is_refused() -> None:
    response = answer(asked(13, None), 13, a_view())
    assert response.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize("version", range(8, 14))
def test_everything_is_allowed_to_who_asks_what_is(version: int) -> None:
    body = asked(
        version, "a", "no", include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    response = answer(body, version, a_view(a_topic("a", 1)))
    assert [topic.topic_authorized_operations for topic in response.topics] == [3576, 3576]
    if version <= 10:
        assert response.cluster_authorized_operations == 8096


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_on_a_failed_disk_has_no_leader(version: int) -> None:
    view = a_view(a_topic("a", 1, a_partition(log_dir=NO_LOG_DIR, leader=-1, leader_epoch=6)))

    (row,) = answer(all_topics(version), version, view).topics[0].partitions

    assert (row.error_code, row.leader_id) == (ErrorCode.leader_not_available, -1)
    assert (row.replica_nodes, row.isr_nodes) == ((1,), (1,))
    if version >= 5:
        assert row.offline_replicas == (1,)
    if version >= 7:
        assert row.leader_epoch == 6


@pytest.mark.parametrize("version", VERSIONS)
def test_replicas_on_dead_brokers_are_offline_and_version_0_leaves_them_out(version: int) -> None:
    view = a_view(a_topic("a", 1, a_partition(replicas=(1, 2, 3), isr=(1, 3))), brokers=(a_broker(1), a_broker(3)))

    response = answer(all_topics(version), version, view)

    (row,) = response.topics[0].partitions
    assert [broker.node_id for broker in response.brokers] == [1, 3]
    if version == 0:
        assert (row.error_code, row.replica_nodes, row.isr_nodes) == (ErrorCode.replica_not_available, (1, 3), (1, 3))
    else:
        assert (row.error_code, row.replica_nodes, row.isr_nodes) == (ErrorCode.none, (1, 2, 3), (1, 3))
    if version >= 5:
        assert row.offline_replicas == (2,)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_without_the_listener_of_the_client_is_none_for_it(version: int) -> None:
    """As ZkMetadataCache.getPartitionMetadata has it: such a broker lives, and its replicas are not offline."""
    rows = a_partition(0, leader=2, leader_epoch=6, replicas=(2, 1), isr=(2, 1)), a_partition(1, replicas=(1, 2))
    elsewhere = a_broker(2, listener_name="OTHER")
    view = a_view(a_topic("a", 1, *rows), brokers=(a_broker(1), elsewhere))

    response = answer(all_topics(version), version, view)

    assert [broker.node_id for broker in response.brokers] == [1]
    first, second = response.topics[0].partitions
    expected = ErrorCode.listener_not_found if version >= 6 else ErrorCode.leader_not_available
    assert (first.error_code, first.leader_id) == (expected, -1)
    if version == 0:
        assert (first.replica_nodes, first.isr_nodes) == ((1,), (1,))
        assert (second.error_code, second.leader_id, second.replica_nodes) == (ErrorCode.replica_not_available, 1, (1,))
    else:
        assert (first.replica_nodes, first.isr_nodes) == ((2, 1), (2, 1))
        assert (second.error_code, second.leader_id, second.replica_nodes) == (ErrorCode.none, 1, (1, 2))
    if version >= 5:
        assert (first.offline_replicas, second.offline_replicas) == ((), ())
    if version >= 7:
        assert first.leader_epoch == 6


def test_clients_of_different_listeners_do_not_share_what_is_kept() -> None:
    topic = a_topic("a", 1, a_partition(leader=2, replicas=(2,)))
    view = a_view(topic, brokers=(a_broker(1), a_broker(2, listener_name="OTHER")))
    for version, code in ((5, ErrorCode.leader_not_available), (6, ErrorCode.listener_not_found)) * 2:
        assert answer(all_topics(version), version, view).topics[0].partitions[0].error_code is code
    view.image = an_image(topic, brokers=(a_broker(1), a_broker(2)))
    assert answer(all_topics(6), 6, view).topics[0].partitions[0].leader_id == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_a_replica_whose_log_directory_has_failed_elsewhere_is_offline(version: int) -> None:
    row = a_partition(replicas=(1, 2, 3), isr=(1, 3), offline=(2,))
    view = a_view(a_topic("a", 1, row), brokers=(a_broker(1), a_broker(2), a_broker(3)))

    (told,) = answer(all_topics(version), version, view).topics[0].partitions

    assert (told.error_code, told.leader_id, told.replica_nodes) == (ErrorCode.none, 1, (1, 2, 3))
    if version >= 5:
        assert told.offline_replicas == (2,)


def test_a_topic_that_changed_is_told_anew() -> None:
    view = a_view(a_topic("a", 1), a_topic("b", 2))
    answer(all_topics(9), 9, view)

    view.image = an_image(a_topic("a", 1, a_partition(0, 0), a_partition(1, 1)), view.image.topics["b"])

    assert [len(topic.partitions) for topic in answer(all_topics(9), 9, view).topics] == [2, 1]


def test_a_broker_that_comes_back_is_told_anew() -> None:
    topic = a_topic("a", 1, a_partition(replicas=(1, 2)))
    view = a_view(topic)
    assert answer(all_topics(9), 9, view).topics[0].partitions[0].offline_replicas == (2,)

    view.image = an_image(topic, brokers=(a_broker(1), a_broker(2)))

    assert answer(all_topics(9), 9, view).topics[0].partitions[0].offline_replicas == ()


def test_a_deleted_topic_is_forgotten() -> None:
    view = a_view(a_topic("a", 1), a_topic("b", 2))
    answer(all_topics(9), 9, view)

    view.image = an_image(view.image.topics["b"])

    assert names(answer(all_topics(9), 9, view)) == ["b"]
    assert names(answer(asked(9, "a"), 9, view)) == ["a"]
    assert answer(asked(9, "a"), 9, view).topics[0].error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_off_anywhere_is_malformed(version: int) -> None:
    whole = bytes(asked(version, "a", "topic"))
    for end in range(len(whole)):
        with pytest.raises(MalformedRequest):
            finished(read_request(memoryview(whole[:end]), version))


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_after_the_request_are_ignored(version: int) -> None:
    assert names(answer(memoryview(bytes(asked(version, "a")) + b"x"), version, a_view())) == ["a"]


def whole(version: int, view: BrokerView) -> bytes:
    return finished(metadata.response(finished(read_request(all_topics(version), version)), a_context(version), view))


def test_all_who_ask_for_all_topics_alike_get_the_same_object() -> None:
    view = a_view(a_topic("text", 7, a_partition(0, 5)))
    first = whole(9, view)
    assert whole(9, view) is first
    assert whole(12, view) != first


def test_answer_about_all_topics_follows_the_image_and_who_asks() -> None:
    view = a_view(a_topic("text", 7, a_partition(0, 5)))
    assert names(answer(all_topics(9), 9, view)) == ["text"]
    view.image = an_image(a_topic("other", 8, a_partition(0, 6)))
    assert names(answer(all_topics(9), 9, view)) == ["other"]
    elsewhere = ("elsewhere", 1234)
    told = answer(all_topics(9), 9, view, advertised=elsewhere)
    assert [(row.host, row.port) for row in told.brokers] == [elsewhere]


def test_no_more_answers_about_all_topics_are_kept_than_clients_of_a_few_kinds_need() -> None:
    view = a_view(a_topic("text", 7, a_partition(0, 5)))
    for version in VERSIONS:
        whole(version, view)
    last = VERSIONS[-1]
    assert whole(last, view) is not whole(last, view)
