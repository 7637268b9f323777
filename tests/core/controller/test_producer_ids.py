"""Producer ids: each is given once, whatever happened before this store existed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkad.adapters.stores.embedded_store import EmbeddedStore
from kafkad.core.controller.producer_ids import (
    BLOCK_SIZE,
    ProducerIdControlManager,
    UnreadableBlock,
    start_above_foreign_ids,
)
from kafkad.core.controller.startup.term import ensure_paths
from kafkad.core.controller.store import nodes
from kafkad.core.errors import ErrorCode

NOW = 1_700_000_000_000


@pytest.fixture
def store() -> Iterator[EmbeddedStore]:
    made = EmbeddedStore(Path(":memory:"), 1)
    ensure_paths(made)
    yield made
    made.close()


def test_a_new_cluster_counts_from_zero(store: EmbeddedStore) -> None:
    ids = ProducerIdControlManager(store, 1)
    assert [ids.allocate() for _ in range(BLOCK_SIZE + 1)] == list(range(BLOCK_SIZE + 1))


def test_what_a_process_had_left_of_its_block_is_not_given_again(store: EmbeddedStore) -> None:
    assert ProducerIdControlManager(store, 1).allocate() == 0
    assert ProducerIdControlManager(store, 1).allocate() == BLOCK_SIZE


def test_ids_of_somebody_else_are_kept_clear_of(store: EmbeddedStore) -> None:
    start_above_foreign_ids(store, 1, NOW)
    start_above_foreign_ids(store, 1, NOW + 5)
    ids = ProducerIdControlManager(store, 1)
    assert [ids.allocate(), ids.allocate()] == [NOW * 1000, NOW * 1000 + 1]


def test_a_store_that_has_given_ids_goes_on_where_it_was(store: EmbeddedStore) -> None:
    ProducerIdControlManager(store, 1).allocate()
    start_above_foreign_ids(store, 1, NOW)
    assert ProducerIdControlManager(store, 1).allocate() == BLOCK_SIZE


BLOCK = b'{"version":1,"broker":1,"block_start":"0","block_end":"%s"}'


@pytest.mark.parametrize(
    "data",
    [
        b"garbage",
        b"{}",
        BLOCK % b"x",
        BLOCK % b"-2",
        BLOCK % b"9223372036854775807",
        BLOCK % (b"9" * 5_000),
        b'{"x":' + b"[" * 100_000,
    ],
    ids=["no JSON", "nothing", "no number", "before all", "after all", "many digits", "too deep"],
)
def test_what_is_no_block_gives_no_id_and_is_an_error_of_that_request(store: EmbeddedStore, data: bytes) -> None:
    store.set_data(nodes.PRODUCER_ID_BLOCK, data)
    ids = ProducerIdControlManager(store, 1)
    with pytest.raises(UnreadableBlock, match=r"/latest_producer_id_block (can't be read|ends at)"):
        ids.allocate()
    assert ids.block_response(ErrorCode.NONE) == (ErrorCode.UNKNOWN_SERVER_ERROR, range(0))
    store.set_data(nodes.PRODUCER_ID_BLOCK, b"")
    assert ids.block_response(ErrorCode.STALE_BROKER_EPOCH) == (ErrorCode.STALE_BROKER_EPOCH, range(0))
    assert ids.block_response(ErrorCode.NONE) == (ErrorCode.NONE, range(BLOCK_SIZE))
