"""FindCoordinator in every version: this broker for groups and transactions, after the internal topic is there."""

import pytest
from kio.schema.errors import ErrorCode

from kafkad.core.controller.image import NO_LEADER
from kafkad.core.coordinator.partitioning import partition_for
from kafkad.handlers.coordinators import find_coordinator
from kafkad.handlers.requests.view import BrokerView
from tests.contexts import REACHED, a_context
from tests.handlers.kio_calls import KioApi
from tests.handlers.views import a_broker, a_partition, a_topic, a_view

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def view_with(topic: str, *leaders: int) -> BrokerView:
    rows = tuple(a_partition(index, index, leader=leader) for index, leader in enumerate(leaders))
    return a_view(a_topic(topic, 9, *rows), brokers=(a_broker(1), a_broker(2)))


@pytest.mark.parametrize("version", range(4))
def test_the_first_versions_name_one_node(version: int) -> None:
    api = KioApi("find_coordinator", version)
    body = api.request(key="g", key_type=0)
    reply = api.read(find_coordinator.handle(body, a_context(version), view_with(OFFSETS, 1)))
    assert (reply.error_code, reply.node_id, reply.host, reply.port) == (ErrorCode.none, 1, *REACHED)
    assert getattr(reply, "error_message", "NONE") == "NONE"


@pytest.mark.parametrize("version", range(4, 7))
def test_later_versions_name_a_node_for_each_key(version: int) -> None:
    api = KioApi("find_coordinator", version)
    view = view_with(TRANSACTIONS, 1, 2, NO_LEADER)
    keys = tuple(f"t{number}" for number in range(20))
    reply = api.read(find_coordinator.handle(api.request(key_type=1, coordinator_keys=keys), a_context(version), view))
    nodes = {0: (ErrorCode.none, 1), 1: (ErrorCode.none, 2), 2: (ErrorCode.coordinator_not_available, -1)}
    assert [(row.key, (row.error_code, row.node_id)) for row in reply.coordinators] == [
        (key, nodes[partition_for(key, 3)]) for key in keys
    ]
    assert {row.host for row in reply.coordinators if row.node_id == 2} == {"host2"}
    assert {row.error_message for row in reply.coordinators} == {""}


@pytest.mark.parametrize("version", range(7))
def test_the_internal_topic_is_wanted_until_it_is_there(version: int) -> None:
    api = KioApi("find_coordinator", version)
    body = api.request(key="g", key_type=0, coordinator_keys=("g",))
    view = a_view()
    assert find_coordinator.wanted_topics(body, a_context(version), view) == {OFFSETS}
    assert find_coordinator.wanted_topics(body, a_context(version), view_with(OFFSETS, 1)) == frozenset()
    reply = api.read(find_coordinator.handle(body, a_context(version), view, {OFFSETS: 3}))
    (row,) = reply.coordinators if version >= 4 else (reply,)
    assert (row.error_code, row.node_id, row.host, row.port) == (ErrorCode.coordinator_not_available, -1, "", -1)


def test_there_are_no_share_groups_and_no_other_kinds_of_keys() -> None:
    api = KioApi("find_coordinator", 6)
    view = view_with(OFFSETS, 1)
    for key_type, message in ((2, ""), (7, "This most likely occurs")):
        body = api.request(key_type=key_type, coordinator_keys=("g",))
        assert find_coordinator.wanted_topics(body, a_context(6), view) == frozenset()
        (row,) = api.read(find_coordinator.handle(body, a_context(6), view)).coordinators
        assert (row.error_code, row.node_id) == (ErrorCode.invalid_request, -1)
        assert bool(row.error_message) == bool(message) and row.error_message.startswith(message)
