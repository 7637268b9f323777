"""DescribeCluster in every version, compared with what Apache Kafka 4.3.0 was seen to answer."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafkad.handlers import describe_cluster
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.wire.api_table import DESCRIBE_CLUSTER
from kafkad.wire.primitives import MalformedRequest
from tests.contexts import a_context
from tests.handlers.kio_calls import KioApi, versions_of
from tests.handlers.views import CLUSTER, a_broker, a_view

VERSIONS = versions_of(DESCRIBE_CLUSTER)
BROKERS, CONTROLLERS = 1, 2
NOT_REQUESTED = -(2**31)


def ask(view: BrokerView, version: int, *, endpoint_type: int = BROKERS, operations: bool = False) -> Any:
    api = KioApi("describe_cluster", version)
    body = api.request(
        include_cluster_authorized_operations=operations, endpoint_type=endpoint_type, include_fenced_brokers=True
    )
    return api.read(describe_cluster.handle(body, a_context(version), view))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_live_brokers_are_told_this_one_where_it_was_reached(version: int) -> None:
    response = ask(a_view(brokers=(a_broker(3), a_broker(1, "near"))), version)
    assert (response.error_code, response.cluster_id, response.controller_id) == (ErrorCode.none, CLUSTER, 1)
    assert [(row.broker_id, row.host, row.port, row.rack) for row in response.brokers] == [
        (1, "reached.example", 9092, "near"),
        (3, "host3", 9003, None),
    ]
    assert response.cluster_authorized_operations == NOT_REQUESTED


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_is_allowed_to_who_asks_what_is(version: int) -> None:
    assert ask(a_view(), version, operations=True).cluster_authorized_operations == 8096


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("endpoint_type", "error", "text"),
    [
        (
            CONTROLLERS,
            ErrorCode.mismatched_endpoint_type,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
        (3, ErrorCode.unsupported_endpoint_type, "Unsupported endpoint type 3"),
        (0, ErrorCode.unsupported_endpoint_type, "Unsupported endpoint type 0"),
    ],
)
def test_who_wants_controllers_is_told_that_this_is_a_broker(
    version: int, endpoint_type: int, error: ErrorCode, text: str
) -> None:
    response = ask(a_view(), version, endpoint_type=endpoint_type, operations=True)
    assert (response.error_code, response.error_message) == (error, text)
    assert (response.brokers, response.cluster_id, response.controller_id) == ((), "", -1)
    assert (response.endpoint_type, response.cluster_authorized_operations) == (BROKERS, NOT_REQUESTED)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_body_is_malformed(version: int) -> None:
    with pytest.raises(MalformedRequest):
        describe_cluster.handle(memoryview(b""), a_context(version), a_view())
