"""Retention in a real broker, with its clock and its files: records without a time are as old as these, not of 1970."""

from pathlib import Path

from bench.brokers.processes import eventually
from kafkad.core.log.records.record import NewRecord, build_batch
from tests.core.log.sealed import sealed
from tests.daemon.served import Served
from tests.tools.raw_requests import fetch, list_offsets, produce, read_fetched, read_produced

OFTEN = {"log.retention.check.interval.ms": "50", "log.initial.task.delay.ms": "1"}
OF_1970 = build_batch([NewRecord(0, b"k", b"v")])
WITHOUT_A_TIME = (
    # Of librdkafka, and of others.
    sealed(build_batch([NewRecord(-1, b"k", b"v")]), max_timestamp=0),
    build_batch([NewRecord(-1, b"k", b"v")]),
)


def test_records_without_a_time_outlive_the_rounds_of_the_cleaner(tmp_path: Path) -> None:
    with Served(tmp_path, OFTEN, partitions=1 + len(WITHOUT_A_TIME)) as served, served.connect() as client:
        for partition, records in enumerate(WITHOUT_A_TIME, 1):
            assert read_produced(client.ask(produce({("t", partition): records})))["t", partition].error == 0
        # The second of them is gone only after a round that began with the other partitions as they are.
        for _ in range(2):
            assert read_produced(client.ask(produce({("t", 0): OF_1970})))["t", 0].error == 0
            end = client.ask(list_offsets("t", 0, -1))[-8:]
            eventually(
                lambda end=end: client.ask(list_offsets("t", 0, -2))[-8:] == end,  # type: ignore[misc]
                what="what is of 1970 is deleted",
            )
        for partition in range(1, 1 + len(WITHOUT_A_TIME)):
            assert read_fetched(client.ask(fetch({("t", partition): 0}, min_bytes=0)))["t", partition].records
