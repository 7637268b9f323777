"""The elected controller of a cluster handles a request about very many topics in pieces, in the store's thread."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.controller.startup.term import ensure_paths, register_broker
from kafkad.core.errors import ErrorCode
from kafkad.processes.controller.cluster.electable_controller import ElectableController
from tests.core.controller.world import LISTENER
from tests.processes.controller.opened import forked
from tests.processes.controller.test_requests_in_pieces import LARGE, MANY, codes_in, create


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[ElectableController]:
    """Elected, and the only broker of its cluster."""
    store = EmbeddedStore(tmp_path / "store", 7)
    ensure_paths(store)
    settings = {"zookeeper.connect": "played:2181", "node.id": "1", "log.dirs": str(tmp_path / "data")}
    with forked(settings) as context:
        register_broker(store, 1, {"PLAINTEXT": LISTENER}, None, now_ms=1)
        made = ElectableController(context)
        made.run(store, "cluster")  # type: ignore[arg-type]
        yield made
    store.close()


def test_others_are_served_between_the_pieces(controller: ElectableController) -> None:
    large, small = controller.handle_request(create(LARGE, MANY)), controller.handle_request(create(LARGE, ["small"]))
    first = next(large)
    assert (first.is_last, first.body) == (False, None)
    (only,) = small
    assert only.is_last and only.body and codes_in(only.body) == {"small": ErrorCode.NONE}
    second, last = large
    assert (second.is_last, last.is_last) == (False, True)
    assert last.body and codes_in(last.body) == dict.fromkeys(MANY, ErrorCode.NONE)
    assert all(each.outcome.requests for each in (first, second, last)), "brokers are told of each piece"


def test_a_controller_that_is_no_longer_elected_handles_no_further_piece(controller: ElectableController) -> None:
    large, created = controller.handle_request(create(LARGE, MANY)), controller.auto_create([*MANY, "other"])
    assert not next(large).is_last
    assert not next(created).is_last
    controller.resign()
    (handled,) = large
    assert (handled.is_last, handled.body, handled.outcome.registered) == (True, None, None)
    (left,) = created
    assert (left.is_last, left.results) == (True, None)


def test_topics_that_requests_use_are_created_in_pieces(controller: ElectableController) -> None:
    pieces = list(controller.auto_create(MANY))
    assert [each.is_last for each in pieces] == [False, False, True]
    assert pieces[-1].results is not None
    assert {name: each.code for name, each in pieces[-1].results.items()} == dict.fromkeys(MANY, ErrorCode.NONE)
