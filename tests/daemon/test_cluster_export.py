"""A topic of three brokers in one table: each machine exports what it leads, at the same moment.

It needs real processes: commands on several machines, and brokers that are killed.
"""

import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from click.testing import CliRunner
from confluent_kafka import Producer

from bench.brokers.processes import WITHIN_S
from kafkad.cli import main
from tests.daemon.cluster import rotated
from tests.daemon.shared_cluster import SharedCluster

FORMATS = ("parquet", "delta", "iceberg")


class Machines:
    """One for each broker: it sees the log directory of its own broker only."""

    def __init__(self, cluster: SharedCluster, out: Path) -> None:
        self._cluster = cluster
        self._out = out

    def command(self, broker: int, verb: str, table: str, *options: str) -> list[str]:
        return [
            *("export", verb, "--topic", self._cluster.topic, "--out", str(self._out / table)),
            *("--bootstrap-server", self._cluster.brokers[broker].bootstrap, "--format", table, *options),
        ]

    def _of_what_it_leads(self, broker: int, table: str) -> list[str]:
        here = ("--source", "files", "--log-dirs", self._cluster.log_dirs_of(broker))
        return self.command(broker, "run", table, "--partitions", "led", *here, "--json")

    def run_at_once(self, brokers: tuple[int, ...], table: str) -> dict[int, int]:
        """How many records each has brought, all of them at the same moment."""
        running = {}
        for broker in brokers:
            command = [sys.executable, "-m", "kafkad", *self._of_what_it_leads(broker, table)]
            running[broker] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        brought = {}
        for broker, process in running.items():
            out, said = process.communicate(timeout=WITHIN_S)
            assert process.returncode == 0, (broker, said)
            brought[broker] = int(json.loads(out)["records"])
        return brought

    def run_in_turn(self, brokers: tuple[int, ...], table: str) -> dict[int, dict[str, Any]]:
        """What each has said."""
        return {broker: json.loads(kafkad_said(self._of_what_it_leads(broker, table))) for broker in brokers}

    def brought_in_turn(self, brokers: tuple[int, ...], table: str) -> dict[int, int]:
        return {broker: int(row["records"]) for broker, row in self.run_in_turn(brokers, table).items()}

    def complete_until(self, broker: int, table: str) -> str | None:
        until: str | None = json.loads(kafkad_said(self.command(broker, "status", table, "--json")))["complete_until"]
        return until

    def run(self, broker: int, table: str, *options: str) -> None:
        kafkad_said(self.command(broker, "run", table, *options))

    def numbers(self, broker: int, table: str) -> list[int]:
        listed = kafkad_said(self.command(broker, "files", table)).splitlines()
        tables = [pq.ParquetFile(path).read(["value"]) for path in listed]
        return sorted(int(value) for each in tables for value in each.column("value").to_pylist())

    def verify(self, broker: int, table: str) -> None:
        kafkad_said(self.command(broker, "verify", table))


def repeated(numbers: list[int]) -> list[int]:
    return sorted(number for number, count in Counter(numbers).items() if count > 1)


def kafkad_said(arguments: list[str]) -> str:
    """In this process: only what has to be done at the same moment needs one of its own, which is slow to begin."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_each_machine_exports_what_it_leads_into_one_table(cluster: SharedCluster, tmp_path: Path) -> None:
    machines = Machines(cluster, tmp_path / "lake")
    cluster.create_led(3, cluster.topic, rotated(1, 2, 3))
    cluster.produce(2, range(300))
    for table in FORMATS:
        assert machines.run_at_once((1, 2, 3), table) == {1: 100, 2: 100, 3: 100}
    cluster.produce(2, range(300, 600))
    for table in FORMATS:
        brought = machines.brought_in_turn((1, 2, 3), table)
        found = (table, brought, repeated(machines.numbers(1, table)), machines.numbers(1, table))
        assert found == (table, {1: 100, 2: 100, 3: 100}, [], list(range(600)))
    cluster.brokers[1].kill()
    cluster.wait_until(lambda: cluster.leaders(3, cluster.topic) == [2, 2, 3], "others lead in its place")
    cluster.produce(2, range(600, 900))
    for table in FORMATS:
        assert machines.brought_in_turn((2, 3), table) == {2: 200, 3: 100}
        assert machines.numbers(2, table) == list(range(900))
        machines.verify(2, table)


def test_a_replica_that_is_behind_hides_no_record(cluster: SharedCluster, tmp_path: Path) -> None:
    cluster.create_led(3, cluster.topic, {0: [2, 3], 1: [2, 3], 2: [2, 3]})
    # What a single replica has is committed.
    cluster.configure(1, cluster.topic, "min.insync.replicas", "1")
    cluster.produce(2, range(300))
    behind = cluster.log_dirs_of(3)
    machines = Machines(cluster, tmp_path / "lake")
    machines.run(2, "parquet", "--source", "files", "--log-dirs", behind)
    assert cluster.brokers[3].stop() == 0
    cluster.wait_until(lambda: cluster.in_sync(1, cluster.topic) == [{2}] * 3, "it is not in sync")
    producer = Producer({"bootstrap.servers": cluster.brokers[2].bootstrap, "acks": 1})
    for number in range(300, 600):
        producer.produce(cluster.topic, b"%d" % number, partition=number % 3)
    assert producer.flush(WITHIN_S) == 0
    machines.run(2, "parquet", "--source", "files", "--log-dirs", behind)
    assert machines.numbers(2, "parquet") == list(range(600))


def test_hours_are_complete_when_the_partitions_of_all_machines_have_gone_past_them(
    cluster: SharedCluster, tmp_path: Path
) -> None:
    machines = Machines(cluster, tmp_path / "lake")
    cluster.create_led(3, cluster.topic, {0: [1, 2], 1: [2, 1]})
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)

    def hour(ago: int) -> str:
        return (now - timedelta(hours=ago)).isoformat()

    def produce(partition: int, ago: int) -> None:
        producer = Producer({"bootstrap.servers": cluster.brokers[1].bootstrap})
        at = now - timedelta(hours=ago) + timedelta(minutes=30)
        producer.produce(cluster.topic, b"%d" % ago, partition=partition, timestamp=int(at.timestamp() * 1_000))
        assert producer.flush(WITHIN_S) == 0

    def exported(*brokers: int) -> set[str | None]:
        """What the last of their commits says, and the table then."""
        found = set()
        for table in FORMATS:
            rows = machines.run_in_turn(brokers, table).values()
            assert [row["records"] for row in rows] == [1] * len(brokers)
            last = max(rows, key=lambda row: int(row["commit"]))
            assert machines.complete_until(brokers[0], table) == last["complete_until"]
            found.add(last["complete_until"])
        return found

    produce(0, 9)
    # Broker 2 leads a partition of which the table knows nothing yet.
    assert exported(1) == {None}
    produce(1, 7)
    assert exported(2) == {hour(9)}
    produce(0, 2)
    assert exported(1) == {hour(7)}
    produce(0, 1)
    produce(1, 3)
    assert exported(1, 2) == {hour(3)}
    produce(1, 1)
    assert exported(2) == {hour(1)}
