from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkad.core.cleaning.uncleanable import UncleanableLog
from kafkad.core.columns.records import PORTION_BYTES
from kafkad.core.log.coordinated import append_end_marker
from kafkad.core.log.records.batch import Codec, has_valid_crc, read_header
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.replicated import append_as_follower
from kafkad.core.log.segments.layout import CLEANED, LOG, TXN_INDEX, file_name
from kafkad.core.log.segments.transaction_index import unpack_entries
from tests.amounts import amount
from tests.core.cleaning import naive
from tests.core.cleaning.cleaned_log import (
    CONFIG,
    Writer,
    aborted_in,
    batches_of,
    begin_pass,
    cleaned_batches,
    compacted,
    last_records_of,
    run_pass,
)
from tests.core.log.batches import NOW


@settings(max_examples=amount("cleaning_examples"), deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.sampled_from([1, 700, 1 << 20]))
def test_a_pass_keeps_what_a_look_at_each_record_keeps(seed: int, steps: int, window: int) -> None:
    writer = Writer(seed)
    writer.write(steps)
    log, end = writer.log, writer.log.log_end_offset
    expected = naive.clean(
        batches_of(log, end),
        aborted_in(writer.store),
        first_dirty=0,
        round_end=end,
        last_records=last_records_of(log),
        now_ms=NOW,
        retention_ms=CONFIG.delete_retention_ms,
    )
    cleaning, _ = begin_pass(log, writer.store, first_dirty=0, now_ms=NOW, window=window)
    written = run_pass(cleaning)
    assert cleaning.end_offset == end
    assert cleaned_batches(writer.store, written) == expected


@settings(max_examples=amount("cleaning_examples"), deadline=None)
@given(st.integers(0, 10**6))
def test_what_is_written_has_right_checksums(seed: int) -> None:
    writer = Writer(seed)
    writer.write(30)
    cleaning, _ = begin_pass(writer.log, writer.store, first_dirty=0, now_ms=NOW)
    for files in run_pass(cleaning):
        data = memoryview(writer.store.read(file_name(files.base_offset, LOG, CLEANED)))
        position = 0
        while position < len(data):
            header = read_header(data, position)
            assert has_valid_crc(data, position, header)
            position += header.size
        assert position == files.size


def test_a_batch_that_keeps_all_its_records_is_copied_as_it_lies() -> None:
    writer = compacted([NewRecord(NOW, b"a", b"1"), NewRecord(NOW, b"b", b"2")], codec=Codec.ZSTD)
    before = writer.store.read(file_name(0, LOG))
    cleaning, _ = begin_pass(writer.log, writer.store, first_dirty=0, now_ms=NOW)
    run_pass(cleaning)
    assert writer.store.read(file_name(0, LOG, CLEANED)) == before


def test_the_last_batch_of_a_round_stays_without_its_records() -> None:
    writer = compacted([NewRecord(NOW, b"a", b"1")], [NewRecord(NOW, None, b"no key")])
    cleaning, _ = begin_pass(writer.log, writer.store, first_dirty=0, now_ms=NOW)
    written = run_pass(cleaning)
    batches = cleaned_batches(writer.store, written)
    assert [(batch.last_offset, len(batch.rows)) for batch in batches] == [(0, 1), (1, 0)]
    assert cleaning.figures.dropped_without_key == 1


def test_a_pass_ends_where_the_map_is_full() -> None:
    batches = [[NewRecord(NOW, f"{number}-{row}".encode(), b"v") for row in range(10)] for number in range(10)]
    writer = compacted(*batches)
    cleaning, _ = begin_pass(writer.log, writer.store, first_dirty=0, now_ms=NOW, map_bytes=24 * 40)
    run_pass(cleaning)
    assert cleaning.end_offset == 30
    again, _ = begin_pass(writer.log, writer.store, first_dirty=30, now_ms=NOW, map_bytes=24 * 40)
    run_pass(again)
    assert again.end_offset == 60


def test_a_batch_with_more_keys_than_the_map_is_cleaned_all_the_same() -> None:
    writer = compacted([NewRecord(NOW, str(row).encode(), b"v") for row in range(500)], [NewRecord(NOW, b"0", b"w")])
    cleaning, _ = begin_pass(writer.log, writer.store, first_dirty=0, now_ms=NOW, map_bytes=24 * 8)
    run_pass(cleaning)
    assert cleaning.end_offset >= 500


def test_batches_that_grow_large_are_cleaned_in_steps_of_their_own() -> None:
    """A window of some kilobytes: four batches, each of as much as is decompressed at once."""
    writer = Writer(0, replace(CONFIG, segment_bytes=10**6))
    for number in range(4):
        rows = [NewRecord(NOW, str(number).encode(), bytes(PORTION_BYTES))]
        data = build_batch(rows, base_offset=writer.log.log_end_offset, codec=Codec.ZSTD)
        append_as_follower(writer.log, memoryview(bytearray(data)), leader_epoch=0, now_ms=NOW)
    writer.write(0)
    cleaning, _ = begin_pass(writer.log, writer.store, first_dirty=0, now_ms=NOW, window=1 << 20)
    assert [step > 0 for step in cleaning.learn()] == [False] * 3 + [True]
    (group,) = cleaning.groups()
    assert [step > 0 for step in cleaning.clean(group)] == [False] * 3 + [True]


def test_a_batch_larger_than_the_window_is_cleaned() -> None:
    writer = Writer(0, replace(CONFIG, segment_bytes=10**6))
    for value in (b"old", bytes(200_000)):
        data = build_batch([NewRecord(NOW, b"a", value)], base_offset=writer.log.log_end_offset)
        append_as_follower(writer.log, memoryview(bytearray(data)), leader_epoch=0, now_ms=NOW)
    writer.write(0)
    cleaning, _ = begin_pass(writer.log, writer.store, first_dirty=0, now_ms=NOW, window=100)
    batches = cleaned_batches(writer.store, run_pass(cleaning))
    assert [row.value for batch in batches for row in batch.rows] == [bytes(200_000)]


@pytest.mark.parametrize("position", [5, 25, 65])
def test_damage_is_named_by_file_and_byte(position: int) -> None:
    writer = compacted([NewRecord(NOW, b"a", b"1")], [NewRecord(NOW, b"a", b"2")])
    size = len(build_batch([NewRecord(NOW, b"a", b"1")]))
    writer.store.flip_bit(file_name(0, LOG), size + position, 7)
    # A window for each batch: offsets are outside of the checksum, so a wrong one is found where its window begins.
    cleaning, _ = begin_pass(writer.log, writer.store, first_dirty=0, now_ms=NOW, window=1)
    with pytest.raises(UncleanableLog, match=rf"^{file_name(0, LOG)}, byte {size}: "):
        run_pass(cleaning)


def test_entries_of_aborted_transactions_are_kept_while_their_markers_are_needed() -> None:
    writer = Writer(3)
    writer.write(60)
    before = aborted_in(writer.store)
    cleaning, _ = begin_pass(writer.log, writer.store, first_dirty=0, now_ms=NOW)
    written = run_pass(cleaning)
    names = [file_name(files.base_offset, TXN_INDEX, CLEANED) for files in written if files.txn_index_bytes]
    kept = [entry for name in names for entry in unpack_entries(writer.store.read(name))]
    assert before and kept == before


def test_committed_records_of_a_producer_that_once_aborted_count() -> None:
    """The marker of the aborted transaction lies in the clean part, which is not read to learn keys."""
    writer = Writer(0)

    def append(value: bytes, producer: int) -> None:
        data = build_batch(
            [NewRecord(NOW, b"key", value)],
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=writer.sequences.get(producer, -1),
            is_transactional=producer >= 0,
            base_offset=writer.log.log_end_offset,
        )
        append_as_follower(writer.log, memoryview(bytearray(data)), leader_epoch=0, now_ms=NOW)
        writer.sequences[producer] = writer.sequences.get(producer, -1) + (producer >= 0)

    def end(commit: bool) -> None:
        append_end_marker(
            writer.log,
            producer_id=1,
            producer_epoch=0,
            coordinator_epoch=1,
            commit=commit,
            transaction_version=1,
            leader_epoch=0,
            now_ms=NOW,
        )

    append(b"aborted", 1)
    end(commit=False)
    append(b"older", -1)
    first_dirty = writer.log.log_end_offset
    append(b"newer", 1)
    end(commit=True)
    writer.write(0)
    cleaning, _ = begin_pass(writer.log, writer.store, first_dirty=first_dirty, now_ms=NOW, window=1)
    (files,) = run_pass(cleaning)
    kept = writer.store.read(file_name(files.base_offset, LOG, CLEANED))
    assert b"newer" in kept and b"older" not in kept
