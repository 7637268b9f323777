"""Partition slots: what readers see while a writer writes, dies, or is replaced."""

import os
import random
import signal
from collections.abc import Iterator

import pytest

from kafkad.adapters.shared_memory.partition_table import (
    BYTES_IN,
    FIRST_BYTES_OUT,
    MESSAGES_IN,
    NETWORK_COLUMNS,
    SLOT_BYTES,
    SLOTS,
    TABLE_BYTES,
    PartitionTable,
    SlotUnreadable,
)
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.partition_slot import ROLE_LEADER, STATE_FREE, STATE_ONLINE, PartitionSlot
from kafkad.core.types import NO_OWNER

OLD = PartitionSlot(topic_id=b"0123456789abcdef", partition=3, owner=1, state=STATE_ONLINE, hw_offset=100)
NEW = OLD._replace(hw_offset=200, leader_epoch=7, role=ROLE_LEADER, generation=2)


@pytest.fixture
def region() -> Iterator[SharedRegion]:
    made = SharedRegion("test-partitions", TABLE_BYTES)
    yield made
    made.close()


@pytest.fixture
def table(region: SharedRegion) -> PartitionTable:
    return PartitionTable(region)


@pytest.mark.parametrize("slot", [0, 1, SLOTS - 1])
def test_slot_reads_as_it_was_published(table: PartitionTable, slot: int) -> None:
    table.publish(slot, OLD)
    table.publish(slot, NEW)
    assert table.read(slot) == NEW


def test_slot_that_was_never_published_is_free(table: PartitionTable) -> None:
    slot = table.read(17)
    assert (slot.state, slot.owner) == (STATE_FREE, NO_OWNER)


def test_every_field_keeps_its_extremes(table: PartitionTable) -> None:
    value = PartitionSlot._make(
        (bytes(range(16)), 2**31 - 1, 2**15 - 1, -1, 255, 255, -(2**31), *([2**63 - 1] * 12), 5, *OLD[20:])
    )
    table.publish(4, value)
    assert table.read(4) == value


def test_slots_do_not_touch_each_other(table: PartitionTable) -> None:
    for slot in (8, 9, 10):
        table.publish(slot, OLD._replace(partition=slot))
    table.publish(9, NEW)
    assert (table.read(8).partition, table.read(10).partition) == (8, 10)


def test_writer_killed_at_any_byte_leaves_the_old_half(region: SharedRegion, table: PartitionTable) -> None:
    """What a publish changes, byte by byte: until the last 8 bytes have flipped, the old slot stands."""
    for published in (1, 2):
        slot = published
        for _ in range(published):
            table.publish(slot, OLD)
        start = slot * SLOT_BYTES
        before = region.mm[start : start + SLOT_BYTES]
        table.publish(slot, NEW)
        after = region.mm[start : start + SLOT_BYTES]
        # The index word is the first of the slot, and written last: bytes behind it come first.
        for written in range(8, SLOT_BYTES + 1):
            region.mm[start : start + SLOT_BYTES] = before[:8] + after[8:written] + before[written:]
            assert table.read(slot) == OLD
        region.mm[start : start + SLOT_BYTES] = after
        assert table.read(slot) == NEW


def test_successor_of_a_killed_writer_publishes_as_if_nothing_had_been(
    region: SharedRegion, table: PartitionTable
) -> None:
    table.publish(5, OLD)
    start = 5 * SLOT_BYTES
    before = region.mm[start : start + SLOT_BYTES]
    table.publish(5, NEW)
    after = region.mm[start : start + SLOT_BYTES]
    region.mm[start : start + SLOT_BYTES] = before[:8] + after[8:300] + before[300:]
    successor = PartitionTable(region)
    successor.publish(5, NEW._replace(generation=3))
    assert table.read(5).generation == 3


def test_damaged_slot_is_refused_after_a_bounded_number_of_tries(region: SharedRegion, table: PartitionTable) -> None:
    table.publish(6, OLD)
    region.mm[6 * SLOT_BYTES + 64 : 7 * SLOT_BYTES] = b"\xff" * (SLOT_BYTES - 64)
    with pytest.raises(SlotUnreadable, match="slot 6"):
        table.read(6)


def test_reader_never_sees_a_torn_slot_beside_a_writer_that_is_killed(table: PartitionTable) -> None:
    """The writer publishes slots whose fields all agree, back to back, until it is killed."""
    pid = os.fork()
    if pid == 0:
        count = 0
        while True:
            count += 1
            table.publish(3, PartitionSlot._make((*OLD[:8], *([count] * 11), *OLD[19:])))
    seen: set[object] = set()
    while len(seen) < 200:
        fields = table.read(3)[8:19]
        assert len(set(fields)) == 1
        seen.add(fields[0])
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert len(set(table.read(3)[8:19])) == 1


class OvertakenMemory:
    """Memory whose writer publishes once more and is about to publish again, while a reader begins to read."""

    def __init__(self, region: SharedRegion) -> None:
        self.mm, self.view = self, region.view
        self._region, self._writer = region, PartitionTable(region)
        self.is_reader_overtaken = False

    def __getitem__(self, part: slice) -> bytes:
        if not self.is_reader_overtaken:
            self.is_reader_overtaken = True
            self._writer.publish(3, NEW)
            index = self._region.mm[3 * SLOT_BYTES : 3 * SLOT_BYTES + 8]
            self._writer.publish(3, NEW._replace(hw_offset=300))
            self._region.mm[3 * SLOT_BYTES : 3 * SLOT_BYTES + 8] = index
        return self._region.mm[part]


@pytest.mark.interpreted
def test_reader_that_was_overtaken_sees_nothing_unpublished(region: SharedRegion, table: PartitionTable) -> None:
    """The next reader would see an earlier high watermark: it does not find the records that the first one has read."""
    table.publish(3, OLD)
    memory = OvertakenMemory(region)
    assert PartitionTable(memory).read(3) == NEW  # type: ignore[arg-type]
    assert memory.is_reader_overtaken


def test_cleared_slot_has_a_generation_that_no_handle_has(table: PartitionTable) -> None:
    table.publish(2, NEW)
    table.clear(2)
    slot = table.read(2)
    assert (slot.state, slot.generation, slot.topic_id) == (STATE_FREE, NEW.generation + 1, bytes(16))


def test_traffic_is_counted_by_column_and_slot(table: PartitionTable) -> None:
    table.add_traffic(7, BYTES_IN, 500)
    table.add_traffic(7, MESSAGES_IN, 3)
    amounts = [random.randrange(1000) for _ in range(NETWORK_COLUMNS)]
    for network, amount in enumerate(amounts):
        table.add_traffic(7, FIRST_BYTES_OUT + network, amount)
    table.add_traffic(8, BYTES_IN, 1)
    assert (table.traffic(7, BYTES_IN), table.traffic(7, MESSAGES_IN)) == (500, 3)
    assert table.bytes_out(7) == sum(amounts)
    table.reset_traffic(7)
    assert (table.traffic(7, BYTES_IN), table.bytes_out(7), table.traffic(8, BYTES_IN)) == (0, 0, 1)


def test_a_truncation_is_remembered_whatever_is_published(table: PartitionTable) -> None:
    table.publish(3, OLD)
    table.mark_truncation(3, 8)
    table.publish(3, NEW)
    table.clear(3)
    assert [table.truncation_generation(slot) for slot in (2, 3, 4)] == [0, 8, 0]
