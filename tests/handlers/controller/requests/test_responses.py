"""A request to the controller whose answer can't be encoded gets an error, and the process goes on. So does one that
only reads, whatever its handler raises.
"""

import logging
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from kafkad.core.connections.peer_log_rate_limit import QUIET_MS
from kafkad.core.errors import ErrorCode
from kafkad.handlers.controller.requests.apis_of_controller import DISPATCH
from kafkad.handlers.controller.requests.controller_view import ControllerView
from kafkad.handlers.controller.requests.responses import READ_ONLY, response_to
from kafkad.wire.api_table import DESCRIBE_CONFIGS
from kafkad.wire.primitives import MalformedRequest
from tests.contexts import a_client, a_context
from tests.handlers.controller.test_handlers import TOPIC, Client
from tests.handlers.kio_calls import KioApi

OPTION = "leader.replication.throttled.replicas"
TOO_LONG = ",".join(f"{partition}:1" for partition in range(10_000))
"""A value that ZooKeeper keeps, and a string with a length of 16 bits does not."""


API = KioApi("describe_configs", 1)


def describe() -> memoryview:
    """A request whose answer has that value."""
    resource = API.part("DescribeConfigsResource", resource_type=TOPIC, resource_name="t", configuration_keys=None)
    return API.request(resources=(resource,), include_synonyms=False)


@pytest.fixture
def view() -> ControllerView:
    client = Client()
    client.create("t")
    client.world.controller.set_topic_config("t", {OPTION: TOO_LONG})
    return client.view


def test_what_a_version_cant_carry_is_an_unknown_server_error(
    view: ControllerView, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        answer = response_to(describe(), a_context(1, api_key=DESCRIBE_CONFIGS), view)
    assert isinstance(answer, bytes)
    (result,) = API.read(answer).results
    assert (result.resource_name, int(result.error_code)) == ("t", ErrorCode.UNKNOWN_SERVER_ERROR)
    (line,) = caplog.messages
    assert "the response to DescribeConfigs (version 1) can't be encoded" in line


def test_failures_are_logged_once_a_minute_for_each_address(
    view: ControllerView, caplog: pytest.LogCaptureFixture
) -> None:
    for received_ms in (0, 1, QUIET_MS - 1, QUIET_MS):
        response_to(describe(), a_context(1, api_key=DESCRIBE_CONFIGS, received_ms=received_ms), view)
    other = a_client(address="127.0.0.2")
    response_to(describe(), a_context(1, api_key=DESCRIBE_CONFIGS, client=other, received_ms=1), view)
    assert [line.partition(":")[0] for line in caplog.messages] == ["127.0.0.1", "127.0.0.1", "127.0.0.2"]


def test_a_request_that_cant_be_read_is_malformed(view: ControllerView) -> None:
    with pytest.raises(MalformedRequest):
        response_to(memoryview(b""), a_context(1, api_key=DESCRIBE_CONFIGS), view)


@pytest.mark.parametrize("key", sorted(DISPATCH), ids=str)
def test_bug_of_a_handler_is_an_error_if_it_only_reads(
    key: int, view: ControllerView, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> NoReturn:
        raise ZeroDivisionError("a bug")

    monkeypatch.setitem(DISPATCH, key, fail)
    api = KioApi("describe_configs", 1)
    body = api.request(resources=(), include_synonyms=False)
    if key not in READ_ONLY:
        with pytest.raises(ZeroDivisionError):
            response_to(body, a_context(1, api_key=key), view)
    elif key == DESCRIBE_CONFIGS:
        assert response_to(body, a_context(1, api_key=key), view) == api.response(
            throttle_time=timedelta(0), results=()
        )
        (line,) = caplog.messages
        assert line.startswith("127.0.0.1: DescribeConfigs (version 1) failed: ZeroDivisionError: a bug (")
