"""DescribeLogDirs in every version, compared with what Apache Kafka 4.3.0 was seen to answer."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafkad.core.partition_slot import STATE_OFFLINE
from kafkad.handlers import describe_log_dirs
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.steps import ROWS_A_STEP, Pause
from kafkad.wire.api_table import DESCRIBE_LOG_DIRS
from kafkad.wire.primitives import MalformedRequest
from tests.contexts import a_context
from tests.handlers.kio_calls import KioApi, versions_of
from tests.handlers.stepping import finished
from tests.handlers.views import Slots, a_partition, a_topic, a_view

VERSIONS = versions_of(DESCRIBE_LOG_DIRS)
SPACE = {"/data": (1000, 400), "/more": (9000, 100)}


def space(path: str) -> tuple[int, int] | None:
    return SPACE.get(path)


def two_directories() -> BrokerView:
    """Topic a has a partition in each of two directories, b one in the second."""
    a = a_topic("a", 1, a_partition(0, 0), a_partition(1, 1, log_dir=1))
    view = a_view(a, a_topic("b", 2, a_partition(0, 2, log_dir=1)))
    view.log_dirs = ("/data", "/more")
    view.volume_space = space
    for slot, size in ((0, 10), (1, 20), (2, 30)):
        change(view, slot, size_bytes=size)
    return view


def change(view: BrokerView, slot: int, **values: Any) -> None:
    slots = view.slots
    assert isinstance(slots, Slots)
    slots.published[slot] = slots.published[slot]._replace(**values)


def ask(view: BrokerView, version: int, topics: tuple[tuple[str, tuple[int, ...]], ...] | None) -> Any:
    api = KioApi("describe_log_dirs", version)
    wanted = None
    if topics is not None:
        wanted = tuple(api.part("DescribableLogDirTopic", topic=name, partitions=rows) for name, rows in topics)
    return api.read(finished(describe_log_dirs.handle(api.request(topics=wanted), a_context(version), view)))


def sizes(response: Any) -> dict[str, dict[tuple[str, int], int]]:
    return {
        row.log_dir: {
            (topic.name, each.partition_index): each.partition_size for topic in row.topics for each in topic.partitions
        }
        for row in response.results
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_all_partitions_are_told_with_their_directory_and_size(version: int) -> None:
    response = ask(two_directories(), version, None)
    assert sizes(response) == {"/data": {("a", 0): 10}, "/more": {("a", 1): 20, ("b", 0): 30}}
    for row in response.results:
        assert row.error_code is ErrorCode.none
        assert [(each.offset_lag, each.is_future_key) for topic in row.topics for each in topic.partitions] == [
            (0, False) for topic in row.topics for _ in topic.partitions
        ]
        if version >= 4:
            assert (row.total_bytes, row.usable_bytes) == SPACE[row.log_dir]
        if version >= 5:
            assert row.is_cordoned is False
    if version >= 3:
        assert response.error_code is ErrorCode.none


@pytest.mark.parametrize("version", VERSIONS)
def test_of_partitions_that_are_named_only_those_that_exist_are_told(version: int) -> None:
    response = ask(two_directories(), version, (("a", (1, 1, 7)), ("none", (0,)), ("b", ())))
    assert sizes(response) == {"/data": {}, "/more": {("a", 1): 20}}


@pytest.mark.parametrize("version", VERSIONS)
def test_no_partitions_are_told_when_none_are_named(version: int) -> None:
    assert sizes(ask(two_directories(), version, ())) == {"/data": {}, "/more": {}}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_directory_that_is_offline_is_told_with_an_error(version: int) -> None:
    view = two_directories()
    view.volume_space = lambda path: space(path) if path == "/data" else None
    response = ask(view, version, None)
    assert [row.error_code for row in response.results] == [ErrorCode.none, ErrorCode.kafka_storage_error]
    assert sizes(response) == {"/data": {("a", 0): 10}, "/more": {}}
    if version >= 4:
        assert response.results[1].total_bytes == -1


def test_a_partition_that_is_offline_is_left_out() -> None:
    view = two_directories()
    change(view, 1, state=STATE_OFFLINE)
    assert sizes(ask(view, 5, None)) == {"/data": {("a", 0): 10}, "/more": {("b", 0): 30}}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_off_is_malformed(version: int) -> None:
    with pytest.raises(MalformedRequest):
        describe_log_dirs.handle(memoryview(b"\x00"), a_context(version), a_view())


def test_description_of_many_partitions_goes_in_steps() -> None:
    partitions = [a_partition(index, index) for index in range(3 * ROWS_A_STEP)]
    view = a_view(a_topic("many", 1, *partitions))
    view.volume_space = space
    api = KioApi("describe_log_dirs", 4)
    steps = describe_log_dirs.handle(api.request(topics=None), a_context(4), view)
    assert [next(steps) for _ in range(3)] == [Pause.TURN] * 3
    ((topic,),) = (log_dir.topics for log_dir in api.read(finished(steps)).results)
    assert [row.partition_index for row in topic.partitions] == list(range(len(partitions)))


def test_cordoned_directories_are_shown_as_such() -> None:
    view = two_directories()
    view.cordoned_dirs = frozenset({1})
    assert [row.is_cordoned for row in ask(view, 5, None).results] == [False, True]
