"""The tables of what runs in the network process agree with the API table."""

import subprocess
import sys
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.handlers.coordinators.requests.apis_of_coordinators import COORDINATED
from kafkad.handlers.requests.apis_of_network import LOCAL, OWNER_REQUESTS
from kafkad.handlers.requests.broker_view import ManifestPending
from kafkad.wire import api_table
from kafkad.wire.api_table import APIS, Runs
from kafkad.wire.primitives import MalformedRequest
from tests.contexts import a_context
from tests.handlers.stepping import finished
from tests.handlers.views import a_topic, a_view

OWN_DESKS = {
    api_table.PRODUCE,
    api_table.FETCH,
    api_table.METADATA,
    api_table.API_VERSIONS,
    api_table.FIND_COORDINATOR,
}


def test_every_api_of_the_network_process_has_its_place() -> None:
    local = {key for key, api in APIS.items() if api.runs is Runs.NETWORK} - OWN_DESKS
    owners = {key for key, api in APIS.items() if api.runs is Runs.OWNER} - OWN_DESKS
    coordinated = {key for key, api in APIS.items() if api.runs is Runs.COORDINATOR}
    by_transactional_id = {api_table.INIT_PRODUCER_ID}
    assert (set(LOCAL), set(OWNER_REQUESTS), set(COORDINATED)) == (local, owners, coordinated | by_transactional_id)


def test_nothing_is_loaded_for_tools_that_never_ask() -> None:
    lines = (
        "import sys, kafkad.handlers.requests.apis_of_network;"
        "print([name for name in sys.modules if name.startswith('kio')])"
    )
    assert subprocess.run([sys.executable, "-c", lines], capture_output=True, check=True).stdout == b"[]\n"


@pytest.mark.parametrize("key", sorted({*LOCAL, *OWNER_REQUESTS}))
@given(body=st.binary(max_size=60), version=st.integers(0, 20))
def test_random_bytes_are_answered_or_malformed(key: int, body: bytes, version: int) -> None:
    api = APIS[key]
    served = api.min_version + version % (api.max_version + 1 - api.min_version)
    view = a_view(a_topic("a", 1))
    try:
        answer = (LOCAL.get(key) or OWNER_REQUESTS[key])(memoryview(body), a_context(served), view)
        if isinstance(answer, Generator):
            finished(answer)
    except (MalformedRequest, ManifestPending):
        return
