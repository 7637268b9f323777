"""The elected controller of a cluster handles a request about very many topics in pieces, in the store's thread."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.controller.startup.term import ensure_paths, register_broker
from kafkad.core.errors import ErrorCode
from kafkad.processes.controller.electable_controller import ElectableController
from kafkad.processes.controller.requests.client_requests import CreationInPieces, RequestInPieces
from kafkad.wire import api_table
from kafkad.wire.processes.controller_messages import AdminRequest, AutoCreateRequest
from tests.contexts import a_context
from tests.core.controller.world import LISTENER
from tests.processes.controller.opened import forked
from tests.processes.controller.test_requests_in_pieces import LARGE, MANY, codes_in, create
from tests.processes.pieces import NETWORK


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ElectableController]:
    """Elected, and the only broker of its cluster."""
    store = EmbeddedStore(tmp_path / "store", 7)
    ensure_paths(store)
    settings = {"zookeeper.connect": "played:2181", "node.id": "1", "log.dirs": str(tmp_path / "data")}
    with forked(settings) as context:
        register_broker(store, 1, {"PLAINTEXT": LISTENER}, None, now_ms=1)
        made = ElectableController(context, None)
        made.run(store, "cluster")
        yield made
    store.close()


def requested(token: int, names: list[str]) -> RequestInPieces:
    return RequestInPieces(NETWORK, create(token, names), now_ms=0)


def codes_of(work: RequestInPieces) -> dict[str, ErrorCode]:
    body = work.reply().body
    assert body is not None
    return codes_in(body)


def test_others_are_served_between_the_pieces(controller: ElectableController) -> None:
    large, small = requested(LARGE, MANY), requested(LARGE, ["small"])
    outcomes = [controller.handle_next(large)]
    assert not large.is_handled
    controller.handle_next(small)
    assert small.is_handled and codes_of(small) == {"small": ErrorCode.NONE}
    outcomes.append(controller.handle_next(large))
    assert not large.is_handled
    outcomes.append(controller.handle_next(large))
    assert large.is_handled and codes_of(large) == dict.fromkeys(MANY, ErrorCode.NONE)
    assert all(outcome is not None and outcome.requests for outcome in outcomes), "brokers are told of each piece"


def test_a_controller_that_is_no_longer_elected_handles_no_further_piece(controller: ElectableController) -> None:
    large = requested(LARGE, MANY)
    created = CreationInPieces(NETWORK, AutoCreateRequest(LARGE, [*MANY, "other"]), now_ms=0)
    for work in (large, created):
        assert controller.handle_next(work) is not None
    controller.resign()
    for work in (large, created):
        assert controller.handle_next(work) is None
        assert not work.is_handled


def test_topics_that_requests_use_are_created_in_pieces(controller: ElectableController) -> None:
    created = CreationInPieces(NETWORK, AutoCreateRequest(LARGE, MANY), now_ms=0)
    handled = []
    while not created.is_handled:
        controller.handle_next(created)
        handled.append(sum(each.code is ErrorCode.NONE for each in created.results().values()))
    assert handled == [100, 200, 250]


def test_a_request_of_another_broker_that_is_not_handled_in_time_closes_its_connection() -> None:
    """There is no response with REQUEST_TIMED_OUT to make, and the controller process died of it."""
    context = a_context(3, api_key=api_table.ALTER_PARTITION)
    reply = RequestInPieces(NETWORK, AdminRequest(LARGE, context, b""), now_ms=0).reply()
    assert (reply.token, reply.body) == (LARGE, None) and reply.reason
