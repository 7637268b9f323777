"""How many keys does the filter of compaction take?"""

import math

import pytest

from kafkad.core.log.records.record import NewRecord
from tests.core.cleaning.cleaned_log import Writer, begin_pass, cleaned_batches, compacted, run_pass
from tests.core.log.batches import NOW


def _batches(keys: list[str], size: int) -> list[list[NewRecord]]:
    records = [NewRecord(NOW, key.encode(), b"v") for key in keys]
    return [records[first : first + size] for first in range(0, len(records), size)]


def _end(writer: Writer, *, map_bytes: int, load_factor: float = 0.9) -> int:
    """Where a pass over the whole log ends."""
    cleaning, _ = begin_pass(
        writer.log, writer.store, first_dirty=0, now_ms=NOW, map_bytes=map_bytes, load_factor=load_factor
    )
    run_pass(cleaning)
    return cleaning.end_offset


def test_records_that_are_too_many_to_be_noted_are_looked_up() -> None:
    """A map for 60 keys notes 180 records."""
    records = _batches([str(number * 7 % 40) for number in range(600)], 30)
    kept = []
    for map_bytes in (24 * 60, 1 << 20):
        writer = compacted(*records)
        cleaning, _ = begin_pass(writer.log, writer.store, first_dirty=0, now_ms=NOW, map_bytes=map_bytes)
        kept.append(cleaned_batches(writer.store, run_pass(cleaning)))
    assert kept[0] == kept[1]
    assert sum(len(batch.rows) for batch in kept[0]) == 40


def test_keys_that_are_known_already_take_no_room() -> None:
    writer = compacted(*_batches([str(number % 40) for number in range(600)], 30))
    assert _end(writer, map_bytes=24 * 60) == 600


def test_a_map_that_may_be_large_enough_has_room_for_all_keys() -> None:
    """There is no prime between 1327 and 1361: of 1209 keys the last batch had no room."""
    writer = compacted(*_batches([str(number) for number in range(1209)], 10))
    assert _end(writer, map_bytes=1 << 20) == 1209


@pytest.mark.parametrize("load_factor", [-1.0, 0.0, 1.0, 7.0, math.nan, math.inf])
def test_any_load_factor_cleans_the_log(load_factor: float) -> None:
    writer = compacted(*_batches([str(number) for number in range(200)], 10))
    assert _end(writer, map_bytes=24 * 150, load_factor=load_factor) >= 10
    assert _end(writer, map_bytes=1 << 20, load_factor=load_factor) == 200
