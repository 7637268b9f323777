"""What a policy planned is carried out on the log as it is by then: records that came since stay."""

import time
from collections.abc import Callable

import pytest

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.log.partition_log import PartitionLog
from kafkad.wire.processes.descriptors import CleanupOrdered
from tests.processes.pieces import TOPIC, WORKER, Client, Pieces
from tests.tools.raw_requests import batch, fetch, produce, read_fetched, read_produced

CLEANER = ProcessKey("cleaner", 0)


def _log(pieces: Pieces) -> PartitionLog:
    partition_log = pieces.worker.partitions.by_slot[pieces.slot()].log
    assert partition_log is not None
    return partition_log


def _write(client: Client) -> None:
    assert read_produced(client.ask(produce({(TOPIC, 0): batch()})))[TOPIC, 0].error == 0


def _clean(pieces: Pieces, *, up_to: int, end: int) -> None:
    """An order to delete, made when the log ended at `end`."""
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    order = CleanupOrdered(owned.slot, owned.short_id, False, up_to, end, "a test")
    pieces.hand_over(CLEANER, order)
    pieces.settle()


@pytest.mark.parametrize("is_rolled", [False, True])
def test_segment_that_has_grown_since_it_was_to_go_stays(pieces: Pieces, is_rolled: bool) -> None:
    """All of it was below the log start, or too old; what it got meanwhile is neither, and was acknowledged."""
    client = pieces.connect()
    _write(client)
    _write(client)
    if is_rolled:
        _log(pieces).roll(2, 0)
    _clean(pieces, up_to=0, end=1)
    assert pieces.published().log_start == 0
    assert len(read_fetched(client.ask(fetch({(TOPIC, 0): 0})))[TOPIC, 0].records) == 2 * len(batch())


def test_segments_that_are_as_they_were_go(pieces: Pieces) -> None:
    client = pieces.connect()
    _write(client)
    _log(pieces).roll(1, 0)
    _write(client)
    _clean(pieces, up_to=0, end=1)
    assert pieces.published().log_start == 1
    _clean(pieces, up_to=1, end=2)
    assert pieces.published().log_start == 2


def test_segment_that_was_merged_with_later_ones_since_it_was_to_go_stays(pieces: Pieces) -> None:
    """Only what its first records were was too old."""
    client = pieces.connect()
    for _ in range(3):
        _write(client)
    _log(pieces).roll(3, 0)
    _clean(pieces, up_to=0, end=1)
    assert pieces.published().log_start == 0


def test_segments_below_the_log_start_that_a_dead_worker_has_left_go(pieces: Pieces) -> None:
    """Whatever the topic's cleanup policy is: nobody orders it."""
    client = pieces.connect()
    for end in range(1, 4):
        _write(client)
        _log(pieces).roll(end, 0)
    _log(pieces).log_start_offset = 2
    pieces.worker.slots.publish(pieces.worker.partitions.by_slot[pieces.slot()])
    pieces.replace(WORKER)
    pieces.run_until_online()
    pieces.run(lambda: _log(pieces).segments.base_offsets == [2, 3], "the segments are removed")
    assert pieces.published().log_start == 2


DAY_NS = 86_400 * 10**9


def test_files_of_segments_are_unlinked_in_time_although_the_clock_was_set_back(
    make_pieces: Callable[..., Pieces], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They waited until the clock was where it had been before, and the disk filled up meanwhile."""
    pieces = make_pieces(log_segment_delete_delay_ms="20")
    client = pieces.connect()
    _write(client)
    _log(pieces).roll(1, 0)
    _write(client)
    _clean(pieces, up_to=0, end=1)
    true_time_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true_time_ns() - DAY_NS)
    pieces.run(lambda: not list(pieces.directory().glob("*.deleted")), "the files are gone")
