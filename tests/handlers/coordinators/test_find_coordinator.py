"""FindCoordinator in every version: this broker for groups and transactions, after the internal topic is there."""

import pytest
from kio.schema.errors import ErrorCode

from kafkad.core.controller.image import NO_LEADER
from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.request_context import RequestContext
from kafkad.handlers.coordinators import find_coordinator
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.messages.find_coordinator import FindCoordinatorRequest, read_request
from kafkad.wire.primitives import MalformedRequest
from kafkad.wire.steps import STEP
from tests.contexts import REACHED, a_context
from tests.handlers.kio_calls import KioApi
from tests.handlers.stepping import finished
from tests.handlers.views import a_broker, a_partition, a_topic, a_view

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def request_of(body: bytes | memoryview, version: int) -> FindCoordinatorRequest:
    return finished(read_request(memoryview(body), version))


def handle(body: bytes | memoryview, context: RequestContext, view: BrokerView) -> bytes:
    return finished(find_coordinator.response(request_of(body, context.version), context, view))


def required_topics(body: bytes | memoryview, context: RequestContext, view: BrokerView) -> frozenset[str]:
    return find_coordinator.required_topics(request_of(body, context.version), view)


def view_with(topic: str, *leaders: int) -> BrokerView:
    rows = tuple(a_partition(index, index, leader=leader) for index, leader in enumerate(leaders))
    return a_view(a_topic(topic, 9, *rows), brokers=(a_broker(1), a_broker(2)))


@pytest.mark.parametrize("version", range(4))
def test_the_first_versions_name_one_node(version: int) -> None:
    api = KioApi("find_coordinator", version)
    body = api.request(key="g", key_type=0)
    reply = api.read(handle(body, a_context(version), view_with(OFFSETS, 1)))
    assert (reply.error_code, reply.node_id, reply.host, reply.port) == (ErrorCode.none, 1, *REACHED)
    assert getattr(reply, "error_message", "NONE") == "NONE"


@pytest.mark.parametrize("version", range(4, 7))
def test_later_versions_name_a_node_for_each_key(version: int) -> None:
    api = KioApi("find_coordinator", version)
    view = view_with(TRANSACTIONS, 1, 2, NO_LEADER)
    keys = tuple(f"t{number}" for number in range(20))
    reply = api.read(handle(api.request(key_type=1, coordinator_keys=keys), a_context(version), view))
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
    assert required_topics(body, a_context(version), view) == {OFFSETS}
    assert required_topics(body, a_context(version), view_with(OFFSETS, 1)) == frozenset()
    reply = api.read(handle(body, a_context(version), view))
    (row,) = reply.coordinators if version >= 4 else (reply,)
    assert (row.error_code, row.node_id, row.host, row.port) == (ErrorCode.coordinator_not_available, -1, "", -1)


def test_there_are_no_share_groups_and_no_other_kinds_of_keys() -> None:
    api = KioApi("find_coordinator", 6)
    view = view_with(OFFSETS, 1)
    for key_type, message in ((2, ""), (7, "This most likely occurs")):
        body = api.request(key_type=key_type, coordinator_keys=("g",))
        assert required_topics(body, a_context(6), view) == frozenset()
        (row,) = api.read(handle(body, a_context(6), view)).coordinators
        assert (row.error_code, row.node_id) == (ErrorCode.invalid_request, -1)
        assert bool(row.error_message) == bool(message) and row.error_message.startswith(message)


@pytest.mark.parametrize("version", range(4, 7))
def test_thousands_of_keys_are_read_and_answered_in_steps(version: int) -> None:
    api = KioApi("find_coordinator", version)
    view = view_with(OFFSETS, 1, 2)
    keys = tuple(f"group-{number}" for number in range(9_900))
    body = memoryview(api.request(key_type=0, coordinator_keys=keys))
    assert len(list(read_request(body, version))) >= len(keys) // STEP
    request = request_of(body, version)
    assert len(list(find_coordinator.response(request, a_context(version), view))) >= len(keys) // STEP
    reply = api.read(handle(body, a_context(version), view))
    assert [row.key for row in reply.coordinators] == list(keys)


@pytest.mark.parametrize("version", range(7))
def test_a_request_that_is_cut_off_is_malformed(version: int) -> None:
    body = memoryview(KioApi("find_coordinator", version).request(key="g", key_type=0, coordinator_keys=("g", "h")))
    for end in range(len(body)):
        with pytest.raises(MalformedRequest):
            request_of(body[:end], version)
