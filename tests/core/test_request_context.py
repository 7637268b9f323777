"""The context of a request."""

from kafkad.core.request_context import ANONYMOUS
from tests.contexts import a_client, a_context


def test_whoever_is_not_authenticated_is_called_as_in_apache_kafka() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"


def test_deadlines_count_from_when_the_request_came() -> None:
    assert a_context(received_ms=1_000).deadline_ms(250) == 1_250


def test_an_address_is_shown_to_groups_as_java_writes_it() -> None:
    assert a_context(client=a_client(address="10.0.0.1")).client_host == "/10.0.0.1"
