"""What a worker does by the clock, without anybody asking: old producers are forgotten, old records are synced."""

from collections.abc import Callable

from tests.processes.pieces import TOPIC, Pieces
from tests.tools.raw_requests import batch, produce, read_produced


def test_records_are_synced_when_they_have_waited_long_enough(make_pieces: Callable[..., Pieces]) -> None:
    pieces = make_pieces(log_flush_interval_ms="1", log_flush_scheduler_interval_ms="50", log_initial_task_delay_ms="0")
    assert read_produced(pieces.connect().ask(produce({(TOPIC, 1): batch(3)})))[TOPIC, 1].error == 0
    # What a crash now would have to read again: nothing of it.
    pieces.run(lambda: pieces.published(partition=1).recovery_point == 3, "the log is synced")


def test_producers_that_are_silent_for_long_are_forgotten(make_pieces: Callable[..., Pieces]) -> None:
    pieces = make_pieces(producer_id_expiration_ms="200", producer_id_expiration_check_interval_ms="50")
    client = pieces.connect()

    def error_of(sequence: int) -> int:
        numbered = batch(producer_id=4_000, producer_epoch=0, base_sequence=sequence)
        return read_produced(client.ask(produce({(TOPIC, 0): numbered})))[TOPIC, 0].error

    assert error_of(0) == 0
    # From whom it knows, it takes no batch that leaves others out.
    pieces.run(lambda: error_of(7) == 0, "nobody knows of a sequence any more")
