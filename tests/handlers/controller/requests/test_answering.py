"""A request to the controller whose answer can't be encoded gets an error, and the process goes on."""

import logging

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.handlers.controller.requests.answering import answer_to
from kafkad.handlers.controller.requests.controller_view import ControllerView
from kafkad.wire.api_table import DESCRIBE_CONFIGS
from kafkad.wire.primitives import MalformedRequest
from tests.contexts import a_context
from tests.handlers.controller.test_handlers import TOPIC, Client
from tests.handlers.kio_calls import KioApi

OPTION = "leader.replication.throttled.replicas"
TOO_LONG = ",".join(f"{partition}:1" for partition in range(10_000))
"""A value that ZooKeeper keeps, and a string with a length of 16 bits does not."""


@pytest.fixture
def view() -> ControllerView:
    client = Client()
    client.create("t")
    client.world.controller.set_topic_config("t", {OPTION: TOO_LONG})
    return client.view


def test_what_a_version_cant_carry_is_an_unknown_server_error(
    view: ControllerView, caplog: pytest.LogCaptureFixture
) -> None:
    api = KioApi("describe_configs", 1)
    resource = api.part("DescribeConfigsResource", resource_type=TOPIC, resource_name="t", configuration_keys=None)
    body = api.request(resources=(resource,), include_synonyms=False)
    with caplog.at_level(logging.ERROR):
        answer = answer_to(body, a_context(1, api_key=DESCRIBE_CONFIGS), view)
    assert isinstance(answer, bytes)
    (result,) = api.read(answer).results
    assert (result.resource_name, int(result.error_code)) == ("t", ErrorCode.UNKNOWN_SERVER_ERROR)
    (line,) = caplog.messages
    assert "the answer to DescribeConfigs (version 1) can't be encoded" in line


def test_a_request_that_cant_be_read_is_malformed(view: ControllerView) -> None:
    with pytest.raises(MalformedRequest):
        answer_to(memoryview(b""), a_context(1, api_key=DESCRIBE_CONFIGS), view)
