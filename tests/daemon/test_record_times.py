"""Retention in a real broker: records without a time are as old as their file, and not of 1970."""

from pathlib import Path

import pytest

from bench.brokers.processes import eventually
from kafkad.core.log.records.record import NewRecord, build_batch
from tests.core.log.sealed import sealed
from tests.daemon.served import Served
from tests.tools.raw_requests import fetch, list_offsets, produce, read_fetched, read_produced

OFTEN = {"log.retention.check.interval.ms": "50", "log.initial.task.delay.ms": "1"}
OF_1970 = build_batch([NewRecord(0, b"k", b"v")])
WITHOUT_A_TIME = {
    "of librdkafka": sealed(build_batch([NewRecord(-1, b"k", b"v")]), max_timestamp=0),
    "of others": build_batch([NewRecord(-1, b"k", b"v")]),
}


@pytest.mark.parametrize("records", list(WITHOUT_A_TIME.values()), ids=list(WITHOUT_A_TIME))
def test_records_without_a_time_outlive_the_rounds_of_the_cleaner(tmp_path: Path, records: bytes) -> None:
    with Served(tmp_path, OFTEN) as served, served.connect() as client:
        assert read_produced(client.ask(produce({("t", 0): records})))["t", 0].error == 0
        # The second of them is gone only after a round that began with partition 0 as it is.
        for _ in range(2):
            assert read_produced(client.ask(produce({("t", 1): OF_1970})))["t", 1].error == 0
            end = client.ask(list_offsets("t", 1, -1))[-8:]
            eventually(
                lambda end=end: client.ask(list_offsets("t", 1, -2))[-8:] == end,  # type: ignore[misc]
                what="what is of 1970 is deleted",
            )
        assert read_fetched(client.ask(fetch({("t", 0): 0}, min_bytes=0)))["t", 0].records
