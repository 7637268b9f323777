"""A topic that is made again under its name: nothing that was said of the one before may take from its records.

Real, for the crash and for what two processes write into files.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.brokers.processes import eventually
from kafkad.adapters.files.checkpoint_files import read_offsets
from kafkad.core.log.recovery.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS
from kafkad.core.types import TopicPartition
from tests.daemon.served import Served
from tests.tools.raw_requests import (
    batch,
    create_topic,
    delete_records,
    delete_topic,
    fetch,
    produce,
    read_fetched,
    read_produced,
)

OFTEN = {
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "log.initial.task.delay.ms": "0",
}
PARTITION = TopicPartition("t", 0)
BEFORE, BEGIN = 200, 100


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, OFTEN, partitions=1) as running:
        yield running


def write(served: Served, count: int) -> int:
    """The offset that the first record gets."""
    with served.connect() as client:
        produced = read_produced(client.ask(produce({("t", 0): batch(count)})))["t", 0]
    assert produced.error == 0
    return produced.base_offset


def fetched(served: Served) -> tuple[int, int]:
    """What a fetch from offset 0 says: its error, and the high watermark."""
    with served.connect() as client:
        found = read_fetched(client.ask(fetch({("t", 0): 0})))["t", 0]
    return found.error, found.high_watermark


def recreate(served: Served) -> None:
    def is_made() -> bool:
        with served.connect() as client:
            return b"\x00\x01t\x00\x00" in client.ask(create_topic("t", 1))

    with served.connect() as client:
        client.ask(delete_topic("t"))
    eventually(is_made, what="the topic is made again")


def begin_late(served: Served) -> None:
    """Records below 100 are deleted, and the checkpoint says so."""
    write(served, BEFORE)
    with served.connect() as client:
        client.ask(delete_records("t", 0, BEGIN))
    data = served.broker.log_dir
    eventually(
        lambda: read_offsets(data, LOG_START_OFFSETS).get(PARTITION) == BEGIN,
        what="the log start is checkpointed",
    )


def test_its_records_outlive_a_crash_before_the_next_checkpoint(served: Served) -> None:
    begin_late(served)
    served.broker.stop()
    served.broker.overrides |= dict.fromkeys(OFTEN, "600000")
    served.broker.start()
    recreate(served)
    for name in (LOG_START_OFFSETS, RECOVERY_POINTS):
        assert read_offsets(served.broker.log_dir, name).get(PARTITION, 0) == 0
    assert write(served, 5) == 0
    served.broker.kill()
    served.broker.start()
    eventually(lambda: fetched(served)[1] == 5, what="the records are read again")
    assert fetched(served) == (0, 5)


def test_a_directory_that_was_taken_away_is_named_and_made_anew(served: Served) -> None:
    begin_late(served)
    served.broker.stop()
    directory = served.broker.log_dir / str(PARTITION)
    for file in directory.iterdir():
        file.unlink()
    directory.rmdir()
    served.broker.start()
    eventually(lambda: fetched(served) == (0, 0), what="the partition is there, and empty")
    assert write(served, 1) == 0
    line = served.one_line("begin anew, empty")
    assert line.endswith("1 partition(s) are in no directory of log.dirs and begin anew, empty: t-0")
