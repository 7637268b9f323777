"""A pass that only appends leaves the other parts of a worker alone, and yet none of them is late."""

import pytest

from kafkad.core.log.effects import UnlinkFiles
from tests.processes.pieces import TOPIC, Pieces
from tests.tools.raw_requests import batch, produce, read_produced

APPENDS = 5


def _append(pieces: Pieces, **fields: int) -> None:
    """On a connection that is there already: one that comes is no append."""
    client = pieces.clients[0] if pieces.clients else pieces.connect()
    assert read_produced(client.ask(produce({(TOPIC, 0): batch(**fields)})))[TOPIC, 0].error == 0


def test_a_pass_that_only_appends_asks_no_other_part(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    _append(pieces)
    pieces.settle()
    looks: list[int] = []
    monkeypatch.setattr(pieces.worker.periodic, "tick", looks.append)
    for _ in range(APPENDS):
        _append(pieces)
    assert not looks


def test_what_the_clock_orders_is_done_though_appends_come_all_the_time(pieces: Pieces) -> None:
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    assert owned.log is not None
    name = "00000000000000000000.log.deleted"
    owned.log.store.open(name, create=True)
    pieces.worker.outbox.remove_later(owned, UnlinkFiles(names=(name,), delay_ms=30, generation=0))
    while name in owned.log.store.sizes():
        _append(pieces)


def test_an_append_that_starts_a_timer_is_what_the_worker_wakes_up_for(pieces: Pieces) -> None:
    _append(pieces)
    pieces.settle()
    assert pieces.worker.periodic.next_deadline_ms is None
    _append(pieces, producer_id=7, producer_epoch=0, base_sequence=0)
    due_ms = pieces.worker.periodic.next_deadline_ms
    assert due_ms is not None
    woken_ms = pieces.worker.next_deadline_ms()
    assert woken_ms is not None
    assert woken_ms <= due_ms
