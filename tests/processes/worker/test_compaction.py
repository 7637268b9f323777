"""A log that is compacted while network processes read it: who sees which files, and what ends a pass."""

from collections.abc import Callable, Iterator

import pytest

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.cleaning.uncleanable import PassAbandoned
from kafkad.core.controller.deltas import TopicConfigChanged
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.segments.layout import CLEANED, LOG, file_name
from kafkad.core.log.segments.removal import delete_records_before
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.wire.processes.cleaning_messages import NO_GRANT
from kafkad.wire.processes.descriptors import CleanupOrdered, SegmentsRequest
from tests.core.cleaning.naive import read_batches
from tests.processes.pieces import TOPIC, WORKER, Client, Pieces
from tests.processes.worker.played_cleaner import CLEANER, NOW, Cleaner, log_of
from tests.tools.raw_requests import fetch, list_offsets, produce, read_fetched, read_produced


@pytest.fixture
def pieces(make_pieces: Callable[..., Pieces]) -> Pieces:
    return make_pieces(log_cleanup_policy="compact")


@pytest.fixture
def cleaner(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cleaner]:
    played = Cleaner(pieces, monkeypatch)
    yield played
    played.close()


def write(pieces: Pieces, client: Client, *values: str) -> None:
    """A batch for each value, whose key is its first letter; then a new segment, and all is synced."""
    for value in values:
        data = build_batch([NewRecord(NOW, value[:1].encode(), value.encode())])
        assert read_produced(client.ask(produce({(TOPIC, 0): data})))[TOPIC, 0].error == 0
    partition_log = log_of(pieces)
    partition_log.roll(partition_log.log_end_offset, NOW)
    partition_log.flush()
    pieces.worker.outbox.touched(pieces.worker.partitions.by_slot[pieces.slot()])
    pieces.settle()


def read(client: Client, offset: int) -> list[str]:
    """The values of all that one fetch brings; an empty answer while files change their names is asked again."""
    records = b""
    for _ in range(20):
        records = read_fetched(client.ask(fetch({(TOPIC, 0): offset})))[TOPIC, 0].records
        if records:
            break
    return [(row.value or b"").decode() for batch in read_batches(records) for row in batch.rows]


def read_to(client: Client, end: int) -> list[str]:
    """From the beginning, fetch by fetch."""
    values: list[str] = []
    offset = 0
    while offset < end:
        records = read_fetched(client.ask(fetch({(TOPIC, 0): offset})))[TOPIC, 0].records
        for batch in read_batches(records):
            values += [(row.value or b"").decode() for row in batch.rows if row.offset >= offset]
            offset = batch.last_offset + 1
    return values


def until_readers_are_told(pieces: Pieces) -> OwnedPartition:
    """Only the worker goes on, until a swap waits for the readers, who are in a pass."""
    pieces.enter_pass()
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    pieces.run(lambda: owned.is_swapping, "a swap waits for the readers", WORKER)
    return owned


def test_clients_read_what_stays(pieces: Pieces, cleaner: Cleaner) -> None:
    client = pieces.connect()
    write(pieces, client, "a1", "b1", "a2")
    write(pieces, client, "c1", "b2")
    assert read_to(client, 5) == ["a1", "b1", "a2", "c1", "b2"]
    cleaner.run(5)
    assert read_to(client, 5) == ["a2", "c1", "b2"]
    assert log_of(pieces).cleaned_offset == 5
    pieces.settle()
    assert pieces.published().cleaned_offset == 5


def test_readers_that_are_in_a_pass_hold_up_the_swap(pieces: Pieces, cleaner: Cleaner) -> None:
    client = pieces.connect()
    write(pieces, client, "a1", "b1", "a2")
    write(pieces, client, "a3")
    generation = pieces.published().generation
    granted = cleaner.ask(4)
    cleaner.until_swap(cleaner.steps(granted, 4))
    # The new generation is published when the swap is begun on disk; the files wait until the network process has gone
    # round.
    until_readers_are_told(pieces)
    assert pieces.published().generation == generation + 1
    assert log_of(pieces).rewrites == 0
    assert cleaner.swapped()
    assert log_of(pieces).rewrites == 1
    assert pieces.published().generation == generation + 2
    assert read_to(client, 4) == ["b1", "a3"]


def test_nobody_gets_a_manifest_until_the_files_have_their_names(pieces: Pieces, cleaner: Cleaner) -> None:
    client = pieces.connect()
    write(pieces, client, "a1", "b1", "a2")
    write(pieces, client, "a3")
    cleaner.until_swap(cleaner.steps(cleaner.ask(4), 4))
    owned = until_readers_are_told(pieces)
    client.send(fetch({(TOPIC, 0): 0}))
    assert cleaner.swapped()
    assert not owned.is_swapping
    pieces.run(lambda: client.replies, "the fetch is answered")
    assert not owned.waiting_requests
    client.replies.clear()
    assert read_to(client, 4) == ["b1", "a3"]


SMALL = 200


def test_the_next_group_is_written_while_the_last_is_swapped(pieces: Pieces, cleaner: Cleaner) -> None:
    client = pieces.connect()
    write(pieces, client, "a1", "b1")
    write(pieces, client, "c1", "b2")
    write(pieces, client, "a2")
    granted = cleaner.ask(5)
    steps = cleaner.steps(granted, 5, segment_bytes=SMALL)
    first = cleaner.until_swap(steps)
    assert first.request.sources == [0]
    cleaned = {name for name in log_of(pieces).store.names() if name.endswith(".cleaned")}
    assert file_name(2, LOG, CLEANED) in cleaned
    assert next(steps) is first.done
    # The owner removes what earlier passes have left, and not this.
    first.done.set_result(cleaner.swapped())
    second = cleaner.until_swap(steps)
    assert second.request.sources == [2]
    second.done.set_result(cleaner.swapped())
    third = cleaner.until_swap(steps)
    third.done.set_result(cleaner.swapped())
    with pytest.raises(StopIteration):
        next(steps)
    pieces.settle()
    assert read_to(client, 5) == ["c1", "b2", "a2"]


def test_a_swap_that_is_refused_takes_the_next_group_with_it(pieces: Pieces, cleaner: Cleaner) -> None:
    client = pieces.connect()
    write(pieces, client, "a1", "b1")
    write(pieces, client, "c1", "b2")
    write(pieces, client, "a2")
    steps = cleaner.steps(cleaner.ask(5), 5, segment_bytes=SMALL)
    first = cleaner.until_swap(steps)
    assert next(steps) is first.done
    delete_records_before(log_of(pieces), 2)
    first.done.set_result(cleaner.swapped())
    with pytest.raises(PassAbandoned):
        next(steps)
    assert not [name for name in log_of(pieces).store.names() if name.endswith(".cleaned")]


def test_a_plan_from_before_the_last_pass_is_not_carried_out(pieces: Pieces, cleaner: Cleaner) -> None:
    """The planner may look before the slot says how far the log is clean."""
    client = pieces.connect()
    write(pieces, client, "a1", "b1", "a2")
    cleaner.run(3)
    assert log_of(pieces).cleaned_offset == 3
    assert cleaner.ask(3).grant == NO_GRANT
    write(pieces, client, "b2")
    assert cleaner.ask(4).grant != NO_GRANT


def test_nobody_else_gets_a_log_before_its_cleaner_has_ended(pieces: Pieces, cleaner: Cleaner) -> None:
    """It may be writing, under the names that the other one would take."""
    other = ProcessKey("cleaner", 1)
    client = pieces.connect()
    write(pieces, client, "a1", "b1")
    write(pieces, client, "a2", "c1")
    granted = cleaner.ask(4)
    cleaner.until_swap(cleaner.steps(granted, 4))
    delete_records_before(log_of(pieces), 2)
    assert not cleaner.swapped()
    assert cleaner.ask(4, cleaner=other).grant == NO_GRANT
    cleaner.end(granted)
    assert cleaner.ask(4, cleaner=other).grant != NO_GRANT


def test_segments_that_are_deleted_in_mid_pass_end_it(pieces: Pieces, cleaner: Cleaner) -> None:
    client = pieces.connect()
    write(pieces, client, "a1", "b1")
    write(pieces, client, "a2", "c1")
    steps = cleaner.steps(cleaner.ask(4), 4)
    swap = cleaner.until_swap(steps)
    delete_records_before(log_of(pieces), 2)
    swap.done.set_result(cleaner.swapped())
    with pytest.raises(PassAbandoned):
        next(steps)
    pieces.worker.outbox.touched(pieces.worker.partitions.by_slot[pieces.slot()])
    pieces.settle()
    assert read(client, 2) == ["a2", "c1"]


def test_a_topic_that_is_deleted_in_mid_pass_ends_it(pieces: Pieces, cleaner: Cleaner) -> None:
    client = pieces.connect()
    write(pieces, client, "a1", "a2")
    steps = cleaner.steps(cleaner.ask(2), 2)
    cleaner.until_written(steps)
    pieces.delete_topic(TOPIC)
    pieces.run_until_known()
    cleaner.until_swap(steps)
    assert not cleaner.swapped()


def test_another_policy_in_mid_pass_ends_it(pieces: Pieces, cleaner: Cleaner) -> None:
    client = pieces.connect()
    write(pieces, client, "a1", "a2")
    steps = cleaner.steps(cleaner.ask(2), 2)
    pieces.publish(TopicConfigChanged(TOPIC, {"cleanup.policy": "delete"}))
    pieces.run_until_known()
    cleaner.until_swap(steps)
    assert not cleaner.swapped()
    assert read(client, 0) == ["a1", "a2"]


@pytest.mark.parametrize(("deletes", "stays"), [(False, ["b1", "a2", "c1"]), (True, ["a2", "c1"])])
def test_another_policy_and_back_in_mid_pass_brings_nothing_back(
    pieces: Pieces, cleaner: Cleaner, deletes: bool, stays: list[str]
) -> None:
    """What was deleted meanwhile may still be in what was written."""
    client = pieces.connect()
    write(pieces, client, "a1", "b1")
    write(pieces, client, "a2", "c1")
    steps = cleaner.steps(cleaner.ask(4), 4)
    cleaner.until_written(steps)
    pieces.publish(TopicConfigChanged(TOPIC, {"cleanup.policy": "delete"}))
    pieces.run_until_known()
    if deletes:
        owned = pieces.worker.partitions.by_slot[pieces.slot()]
        order = CleanupOrdered(owned.slot, owned.short_id, False, 0, 4, "a test")
        pieces.hand_over(CLEANER, order)
        pieces.settle()
        assert pieces.published().log_start == 2
    pieces.publish(TopicConfigChanged(TOPIC, {"cleanup.policy": "compact"}))
    pieces.run_until_known()
    cleaner.until_swap(steps)
    assert cleaner.swapped() is not deletes
    pieces.settle()
    assert read(client, pieces.published().log_start) == stays


OUT_OF_ORDER = 45


def test_a_producer_whose_last_batch_is_emptied_goes_on_after_a_loss_of_its_snapshots(
    pieces: Pieces, cleaner: Cleaner
) -> None:
    client = pieces.connect()

    def produced(sequence: int) -> tuple[int, int]:
        data = build_batch(
            [NewRecord(NOW, b"a", b"a%d" % sequence)], producer_id=7, producer_epoch=0, base_sequence=sequence
        )
        error, offset = read_produced(client.ask(produce({(TOPIC, 0): data})))[TOPIC, 0][:2]
        return error, offset

    assert [produced(0), produced(1)] == [(0, 0), (0, 1)]
    write(pieces, client, "a9", "b1")
    cleaner.run(4)
    pieces.settle()
    assert read_to(client, 4) == ["a9", "b1"]
    folder = pieces.directory()
    pieces.kill(WORKER)
    for path in folder.glob("*.snapshot"):
        path.unlink()
    pieces.begin(WORKER)
    pieces.run_until_online()
    client = pieces.connect()
    # Sent again, it is still known; and nothing is left out before the next.
    assert produced(1) == (0, 1)
    assert produced(3)[0] == OUT_OF_ORDER
    assert produced(2) == (0, 4)


def test_one_pass_at_a_time_is_granted_and_none_for_what_may_not_be_cleaned(pieces: Pieces, cleaner: Cleaner) -> None:
    client = pieces.connect()
    write(pieces, client, "a1", "a2")
    write(pieces, client, "a3")
    # In the middle of a segment, and beyond the last stable offset.
    assert cleaner.ask(1).grant == NO_GRANT
    assert cleaner.ask(100).grant == NO_GRANT
    first = cleaner.ask(3)
    assert first.grant != NO_GRANT
    assert [row.base_offset for row in first.sources] == [0, 2]
    assert cleaner.ask(3).grant == NO_GRANT
    cleaner.end(first)
    assert cleaner.ask(3).grant != NO_GRANT


def test_a_cleaner_that_died_loses_its_grant(pieces: Pieces, cleaner: Cleaner) -> None:
    write(pieces, pieces.connect(), "a1", "a2")
    assert cleaner.ask(2).grant != NO_GRANT
    pieces.worker.cleanings.cleaner_lost(CLEANER)
    assert cleaner.ask(2).grant != NO_GRANT


def test_a_worker_that_dies_after_a_swap_leaves_the_compacted_log(pieces: Pieces, cleaner: Cleaner) -> None:
    client = pieces.connect()
    write(pieces, client, "a1", "b1", "a2")
    cleaner.run(3)
    pieces.settle()
    pieces.replace(WORKER)
    pieces.run_until_online()
    assert log_of(pieces).cleaned_offset == 3
    assert read_to(client, 3) == ["b1", "a2"]


def test_a_search_by_time_finds_what_is_there_after_a_swap(pieces: Pieces, cleaner: Cleaner) -> None:
    client = pieces.connect()
    write(pieces, client, "a1", "b1", "a2")
    write(pieces, client, "c1")

    def first_from(timestamp: int) -> int:
        return int.from_bytes(client.ask(list_offsets(TOPIC, 0, timestamp))[-8:], "big")

    assert first_from(NOW) == 0
    cleaner.run(4)
    assert first_from(NOW) == 1


def test_sealed_segments_that_are_not_on_disk_are_synced_when_a_cleaner_looks_at_them(pieces: Pieces) -> None:
    """As after a crash, when nobody writes to the partition any more."""
    write(pieces, pieces.connect(), "a1", "a2")
    partition_log = log_of(pieces)
    partition_log.recovery_point = 0
    owned = pieces.worker.partitions.by_slot[pieces.slot()]
    pieces.hand_over(CLEANER, SegmentsRequest(1, [(owned.slot, owned.short_id)]))
    pieces.run(lambda: partition_log.recovery_point == 2, "the sealed segment is synced")
