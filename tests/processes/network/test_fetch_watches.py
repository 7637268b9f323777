"""An owner sleeps on while fetches wait, unless a slot has moved between their look at it and their watch."""

import os
from uuid import uuid4

import pytest

from kafkad.core.partition_slot import STATE_OFFLINE, STATE_ONLINE, PartitionSlot
from kafkad.core.types import HIGH_WATERMARK, TXN_COMMITTED
from kafkad.processes.network.fetch_watches import MAX_CHECKED, FetchWatches
from tests.processes.pieces import NETWORK, TOPIC, WORKER, Pieces
from tests.tools.raw_requests import batch, fetch, produce, read_fetched

OWNER = 1
ONLINE = PartitionSlot(topic_id=uuid4().bytes, partition=0, owner=OWNER, state=STATE_ONLINE, hw_offset=5, lso_offset=3)


class Slots:
    """The published slots."""

    def __init__(self) -> None:
        self.published = ONLINE

    def read(self, slot: int) -> PartitionSlot:
        return self.published


@pytest.fixture
def slots() -> Slots:
    return Slots()


@pytest.fixture
def watches(slots: Slots) -> FetchWatches:
    return FetchWatches(slots, workers=2)


def test_a_slot_that_stands_still_wakes_nobody(watches: FetchWatches) -> None:
    watches.watch(7, 5, HIGH_WATERMARK)
    watches.watch(7, 3, TXN_COMMITTED)
    assert not watches.has_changes(OWNER)


@pytest.mark.parametrize(
    "moved",
    [
        ONLINE._replace(hw_offset=6),
        ONLINE._replace(state=STATE_OFFLINE),
        ONLINE._replace(owner=0),
    ],
)
def test_a_slot_that_has_moved_meanwhile_wakes_its_owner(
    watches: FetchWatches, slots: Slots, moved: PartitionSlot
) -> None:
    watches.watch(7, 5, HIGH_WATERMARK)
    slots.published = moved
    assert watches.has_changes(OWNER)
    assert not watches.has_changes(OWNER)


def test_what_moves_the_last_stable_offset_is_news_for_those_who_wait_for_it(
    watches: FetchWatches, slots: Slots
) -> None:
    watches.watch(7, 5, HIGH_WATERMARK)
    slots.published = ONLINE._replace(lso_offset=4)
    assert not watches.has_changes(OWNER)
    watches.watch(7, 3, TXN_COMMITTED)
    assert watches.has_changes(OWNER)


def test_an_owner_is_woken_rather_than_very_many_slots_looked_at(watches: FetchWatches) -> None:
    for slot in range(MAX_CHECKED + 1):
        watches.watch(slot, 5, HIGH_WATERMARK)
    assert watches.has_changes(OWNER)


def test_a_fetch_that_waits_lets_the_worker_sleep(pieces: Pieces) -> None:
    reader, writer = pieces.connect(), pieces.connect()
    pieces.settle()
    bell = pieces.shared.doorbells[WORKER]
    bell.mark_asleep()
    reader.send(fetch({(TOPIC, 0): 0}, max_wait_ms=60_000))
    pieces.turn(NETWORK)
    assert len(pieces.network.request_handlers.fetch) == 1
    with pytest.raises(BlockingIOError):
        os.eventfd_read(bell.fd)
    writer.send(produce({(TOPIC, 0): batch()}))
    pieces.turn(NETWORK)
    assert os.eventfd_read(bell.fd) == 1
    assert read_fetched(reader.reply())[TOPIC, 0].records
