"""What a worker does by the clock, without anybody asking: old producers are forgotten, old records are synced."""

from pathlib import Path

from bench.brokers.processes import eventually
from tests.daemon.served import Served
from tests.tools.raw_requests import batch, produce, read_produced

FLUSHES = "kafka_log_logflushstats_logflushrateandtimems_total"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"


def test_records_are_synced_when_they_have_waited_long_enough(tmp_path: Path) -> None:
    clocks = {"log.flush.scheduler.interval.ms": "50", "log.flush.offset.checkpoint.interval.ms": "50"}
    at_once = {"log.flush.interval.ms": "1", "log.initial.task.delay.ms": "0"}
    with Served(tmp_path, {**clocks, **at_once}) as served, served.connect() as client:
        assert served.metric(FLUSHES) == 0
        assert read_produced(client.ask(produce({("t", 1): batch(3)})))["t", 1].error == 0
        eventually(lambda: served.metric(FLUSHES) == 1, what="the log is synced")
        checkpoint = served.broker.log_dir / RECOVERY_POINTS
        # What a crash now would have to read again: nothing of it.
        eventually(
            lambda: checkpoint.exists() and "t 1 3" in checkpoint.read_text().splitlines(),
            what="the recovery point is written down",
        )


def test_producers_that_are_silent_for_long_are_forgotten(tmp_path: Path) -> None:
    clocks = {"producer.id.expiration.ms": "200", "producer.id.expiration.check.interval.ms": "50"}
    with Served(tmp_path, clocks) as served, served.connect() as client:

        def error_of(sequence: int) -> int:
            numbered = batch(producer_id=4_000, producer_epoch=0, base_sequence=sequence)
            return read_produced(client.ask(produce({("t", 0): numbered})))["t", 0].error

        assert error_of(0) == 0
        # From whom it knows, it takes no batch that leaves others out.
        eventually(lambda: error_of(7) == 0, what="nobody knows of a sequence any more")
