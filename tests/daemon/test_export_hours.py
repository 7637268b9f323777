"""Which hours of a table are complete: `kafkad export status` says so, of what all runs have brought.

The broker is a real one, as the command asks it where the topic ends; all tests share it.
"""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from bench.brokers.processes import WITHIN_S, eventually
from tests.daemon.lake import FORMATS, Lake

HOUR = timedelta(hours=1)


def this_hour() -> datetime:
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


def produce(lake: Lake, at: datetime, *partitions: int, **configs: str) -> None:
    producer = Producer({"bootstrap.servers": lake.bootstrap, **configs})
    for partition in partitions:
        producer.produce(lake.topic, b"v", partition=partition, timestamp=int(at.timestamp() * 1_000))
    assert producer.flush(WITHIN_S) == 0


def complete_until(lake: Lake, *options: str) -> datetime | None:
    return until_of(lake.run("status", *options, "--json"))


def until_of(said: str) -> datetime | None:
    until = json.loads(said)["complete_until"]
    return None if until is None else datetime.fromisoformat(until)


@FORMATS
def test_an_hour_is_complete_when_all_partitions_have_gone_past_it(lake: Lake, table: str) -> None:
    options = ("--format", table)
    run = (*options, "--partition-by", "hour", "--json")
    now = this_hour()
    produce(lake, now - 5 * HOUR, 0, 1)
    assert until_of(lake.run("run", *run)) == complete_until(lake, *options) == now - 5 * HOUR
    # Partition 2 is empty as yet, and partition 1 stays behind.
    produce(lake, now - HOUR / 2, 0, 2)
    lake.run("run", *run)
    assert complete_until(lake, *options) == now - 5 * HOUR
    produce(lake, now - 2 * HOUR, 1)
    for _ in range(2):
        # Also of a run for which there is nothing to do.
        assert until_of(lake.run("run", *run)) == complete_until(lake, *options) == now - 2 * HOUR
    said = lake.run("status", *options)
    assert said.endswith(f"\n{lake.topic}: complete up to {now - 2 * HOUR:%Y-%m-%d %H:%M} UTC\n")


def test_a_partition_whose_records_the_table_lacks_holds_the_hours_back(lake: Lake, tmp_path: Path) -> None:
    page = tmp_path / "export.prom"

    def shown() -> list[float]:
        """By the metrics of the run."""
        families = text_string_to_metric_families(page.read_text())
        return [
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == "kafkad_export_complete_until_timestamp_seconds"
        ]

    now = this_hour()
    produce(lake, now - 3 * HOUR, 0)
    end = str(int((now - 2 * HOUR).timestamp() * 1_000))
    produce(lake, now - HOUR, 1)
    assert until_of(lake.run("run", "--end", end, "--json", "--metrics-file", str(page))) is None
    assert complete_until(lake) is None and shown() == []
    assert lake.run("status").endswith(f"\n{lake.topic}: no hour is complete\n")
    lake.run("run", "--metrics-file", str(page))
    assert complete_until(lake) == now - 3 * HOUR and shown() == [(now - 3 * HOUR).timestamp()]


@FORMATS
def test_quiet_partitions_complete_hours_by_the_clock_if_so_wanted(lake: Lake, table: str) -> None:
    options = ("--format", table)
    produce(lake, this_hour() - 30 * HOUR, 0)
    lake.run("run", *options)
    produce(lake, this_hour() - 20 * HOUR, 1)
    lake.run("run", *options)
    produce(lake, this_hour() - HOUR, 1)
    before = this_hour()
    lake.run("run", *options, "--idle-after", "10h")
    until = complete_until(lake, *options)
    assert until in (before - 10 * HOUR, this_hour() - 10 * HOUR)
    # Nothing is new, but the clock completes hours: one commit for them, and no more until the next hour is over.
    before = this_hour()
    row = json.loads(lake.run("run", *options, "--idle-after", "5h", "--json"))
    assert row["records"] == 0 and row["commit"] is not None
    assert complete_until(lake, *options) in (before - 5 * HOUR, this_hour() - 5 * HOUR)
    assert json.loads(lake.run("run", *options, "--idle-after", "6h", "--json"))["commit"] is None
    lake.run("verify", *options)


def test_a_partition_with_an_open_transaction_is_not_quiet(lake: Lake) -> None:
    now = this_hour()
    produce(lake, now - 9 * HOUR, 0, 1, 2)
    producer = Producer({"bootstrap.servers": lake.bootstrap, "transactional.id": lake.topic})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce(lake.topic, b"v", partition=1, timestamp=int((now - 8 * HOUR).timestamp() * 1_000))
    assert producer.flush(WITHIN_S) == 0
    lake.run("run", "--idle-after", "1h")
    assert complete_until(lake) == now - 9 * HOUR
    producer.commit_transaction(WITHIN_S)

    def is_quiet() -> bool:
        lake.run("run", "--idle-after", "1h")
        return complete_until(lake) in (now - HOUR, this_hour() - HOUR)

    # The marker is written after the response.
    eventually(is_quiet, what="the transaction has ended")


def test_a_time_within_an_open_transaction_is_where_the_transaction_begins(lake: Lake) -> None:
    """The table can't begin behind the last stable offset: its next run would take the log for a shorter one."""
    start = this_hour() + HOUR
    producer = Producer({"bootstrap.servers": lake.bootstrap, "transactional.id": lake.topic})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    for time_of in (start - HOUR, start):
        producer.produce(lake.topic, b"v", partition=1, timestamp=int(time_of.timestamp() * 1_000))
    assert producer.flush(WITHIN_S) == 0
    produce(lake, start, 0)
    options = ("--start", str(int(start.timestamp() * 1_000)), "--json")
    assert json.loads(lake.run("run", *options))["records"] == 1
    assert json.loads(lake.run("run", *options))["records"] == 0
    producer.commit_transaction(WITHIN_S)
    exported = 0

    def are_exported() -> bool:
        nonlocal exported
        exported += int(json.loads(lake.run("run", *options))["records"])
        return exported == 2

    # The marker is written after the response.
    eventually(are_exported, what="the transaction has ended")
    lake.run("verify")


def test_a_timestamp_of_the_future_completes_no_hour_that_is_not_over(lake: Lake) -> None:
    began = datetime.fromtimestamp(time.time(), UTC)
    produce(lake, began + HOUR * 0.9, 0)
    lake.run("run")
    assert complete_until(lake) in (began.replace(minute=0, second=0, microsecond=0), this_hour())
