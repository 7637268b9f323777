"""A coordinator loads its log while compaction replaces segments of it: it ends with the latest of each key."""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from kafkad.core.coordinator.shard import Moment
from kafkad.core.log.records.batch import read_header
from kafkad.core.log.records.record import NewRecord, build_batch, iter_records
from kafkad.processes.worker.coordinators import coordinator_log
from tests.processes.pieces import Pieces
from tests.processes.worker.coordinators.test_coordinator_log import partition_of
from tests.processes.worker.played_cleaner import NOW, Cleaner, log_of

MOMENT = Moment(0, NOW)
SEGMENTS = 6
SWAPS = 25


class Log:
    """What was appended, by offset; a value is the number of its record."""

    def __init__(self, pieces: Pieces, random: Random) -> None:
        self.partition = partition_of(pieces)
        self.written: list[tuple[bytes, bytes]] = []
        self._pieces = pieces
        self._random = random

    def append_a_segment(self) -> None:
        for _ in range(self._random.randrange(1, 6)):
            keys = self._random.choices("abcdef", k=self._random.randrange(1, 4))
            rows = [(key.encode(), b"%d" % number) for number, key in enumerate(keys, len(self.written))]
            batch = build_batch([NewRecord(NOW, key, value) for key, value in rows])
            assert self.partition.append(bytearray(batch), MOMENT) == len(self.written)
            self.written += rows
        log = log_of(self._pieces)
        log.roll(log.log_end_offset, NOW)
        log.flush()
        log.advance_high_watermark(log.log_end_offset)

    def load(self, meanwhile: Callable[[], None]) -> dict[bytes, bytes]:
        """As a shard does; each record is the one that was written there, and after those before it."""
        latest: dict[bytes, bytes] = {}
        before = -1
        for batch in self.partition.batches():
            base_offset = read_header(batch).base_offset
            for record in iter_records(batch):
                offset = base_offset + record.offset_delta
                assert offset > before and record.key is not None
                assert (record.key, record.value) == self.written[offset]
                latest[record.key], before = self.written[offset][1], offset
            meanwhile()
        return latest


@pytest.fixture
def pieces(make_pieces: Callable[..., Pieces]) -> Pieces:
    return make_pieces(log_cleanup_policy="compact", log_segment_delete_delay_ms="0")


@pytest.fixture
def cleaner(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cleaner]:
    played = Cleaner(pieces, monkeypatch)
    yield played
    played.close()


@pytest.mark.parametrize("window", [61, 200, 1 << 20])
def test_a_coordinator_that_loads_is_not_misled_by_swaps(
    pieces: Pieces, cleaner: Cleaner, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_log, "LOAD_BYTES", window)
    random = Random(window)
    log = Log(pieces, random)
    for _ in range(SEGMENTS):
        log.append_a_segment()
    loads = 0
    while log_of(pieces).rewrites < SWAPS:
        swaps_left = random.randrange(1, 3)

        def swap_now_and_then() -> None:
            nonlocal swaps_left
            if swaps_left and random.random() < 0.3:
                swaps_left -= 1
                log.append_a_segment()
                cleaner.run(log_of(pieces).segments.active.base_offset)
                pieces.settle()

        latest = log.load(swap_now_and_then)
        assert latest == dict(log.written)
        loads += 1
        assert loads < 4 * SWAPS
