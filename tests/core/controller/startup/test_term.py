"""Who becomes the controller: also instead of one that is gone although its session lives, and then only one of all."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.controller.startup.reconciliation import UnusableMetadata
from kafkad.core.controller.startup.term import claim, ensure_cluster_id, ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import BadVersion, NodeStat, NoNode, Operation, Outcome
from kafkad.core.errors import ErrorCode, KafkaError

pytestmark = pytest.mark.interpreted


class OtherSessions(EmbeddedStore):
    """Another session's writes come between what this one reads and what it writes; its nodes are not this one's."""

    def __init__(self) -> None:
        super().__init__(Path(":memory:"), 7)
        self.meanwhile: Callable[[], None] = lambda: None

    def exists(self, path: str, *, watch: bool = False) -> NodeStat | None:
        stat = super().exists(path, watch=watch)
        return None if stat is None else replace(stat, ephemeral_owner=4711)

    def transaction(self, operations: Sequence[Operation]) -> list[Outcome]:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return super().transaction(operations)


@pytest.fixture
def store() -> OtherSessions:
    made = OtherSessions()
    ensure_paths(made)
    claim(made, 1, 1_000)
    return made


def holder(store: OtherSessions) -> tuple[int, bytes]:
    return nodes.decode_controller(store.get(nodes.CONTROLLER).data).brokerid, store.get(nodes.CONTROLLER_EPOCH).data


def test_a_controller_that_lives_stays(store: OtherSessions) -> None:
    with pytest.raises(KafkaError) as refused:
        claim(store, 2, 1_000)
    assert (refused.value.code, holder(store)) == (ErrorCode.NOT_CONTROLLER, (1, b"1"))


def test_one_that_is_gone_is_replaced_in_one_write_that_raises_the_epoch(store: OtherSessions) -> None:
    gone = store.exists(nodes.CONTROLLER)
    assert claim(store, 2, 1_000, gone).epoch == 2
    assert holder(store) == (2, b"2")


def test_of_two_who_saw_the_same_controller_go_one_replaces_it(store: OtherSessions) -> None:
    gone = store.exists(nodes.CONTROLLER)
    store.meanwhile = lambda: assert_claimed(store, 3, gone)
    with pytest.raises(BadVersion):
        claim(store, 2, 1_000, gone)
    assert holder(store) == (3, b"2")
    with pytest.raises(KafkaError):
        claim(store, 2, 1_000, gone)


def test_a_controller_whose_session_ends_meanwhile_is_run_for_again(store: OtherSessions) -> None:
    gone = store.exists(nodes.CONTROLLER)
    store.meanwhile = lambda: store.delete(nodes.CONTROLLER)
    with pytest.raises(NoNode):
        claim(store, 2, 1_000, gone)
    assert store.get(nodes.CONTROLLER_EPOCH).data == b"1"
    assert claim(store, 2, 1_000, gone).epoch == 2


def assert_claimed(store: OtherSessions, broker: int, gone: NodeStat | None) -> None:
    assert claim(store, broker, 1_000, gone).epoch == 2


@pytest.mark.parametrize("data", [b"garbage", b"", b'{"version":"1"}', b'{"version":"1","id":""}'])
def test_an_id_of_the_cluster_that_can_not_be_read_ends_the_start_in_one_line(
    store: OtherSessions, data: bytes
) -> None:
    store.create(nodes.CLUSTER_ID, data)
    with pytest.raises(UnusableMetadata, match=r"/cluster/id is b'.*', which is not a cluster id: ") as refused:
        ensure_cluster_id(store, "proposed")
    assert "\n" not in str(refused.value)


def test_the_cluster_keeps_the_id_that_it_has(store: OtherSessions) -> None:
    store.create(nodes.CLUSTER_ID, b'{"version":1,"id":"kept","more":[]}')
    assert ensure_cluster_id(store, "proposed") == "kept"
