"""A topic of a real broker and the folder of its table: what tests of exports do with them.

Commands run in the process of the test, which has imported already what each new process would import for a second.
What is about processes, signals or `--jobs` begins a process: `command`, `apart`.
"""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S
from kafkad.cli import main
from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient

PARTITIONS = 3
FORMATS = pytest.mark.parametrize("table", ["parquet", "delta", "iceberg"])


class Lake:
    """A topic of its own and the folder of its table."""

    def __init__(self, broker: Kafkad, folder: Path, topic: str) -> None:
        self.bootstrap = f"127.0.0.1:{broker.port}"
        self.log_dir = broker.log_dir
        self.topic = topic
        self.out = folder / "table"
        self.sent: list[bytes] = []
        with BrokerClient(self.bootstrap) as client:
            client.create_topic(topic, partitions=PARTITIONS, replication_factor=BROKER_DEFAULT, configs={})

    def produce(self, count: int, **configs: str) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, **configs})
        for _ in range(count):
            value = b"%s-%d" % (self.topic.encode(), len(self.sent))
            self.sent.append(value)
            key = None if len(self.sent) % 5 == 0 else b"key %d" % (len(self.sent) % 100)
            producer.produce(self.topic, key=key, value=value, headers=[("h", b"x")] if len(self.sent) % 3 == 0 else [])
        assert producer.flush(WITHIN_S) == 0

    def send(self, *values: bytes | None) -> None:
        """Values without keys."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for value in values:
            producer.produce(self.topic, value=value)
        assert producer.flush(WITHIN_S) == 0
        self.sent += [value for value in values if value is not None]

    def transactions(self, count: int) -> None:
        """Every second one is aborted."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": f"id of {self.topic}"})
        producer.init_transactions(WITHIN_S)
        for number in range(count):
            producer.begin_transaction()
            values = [b"transaction %d-%d" % (number, each) for each in range(50)]
            for value in values:
                producer.produce(self.topic, value=value)
            producer.flush(WITHIN_S)
            if number % 2:
                producer.abort_transaction(WITHIN_S)
            else:
                producer.commit_transaction(WITHIN_S)
                self.sent += values

    def words(self, verb: str, *options: str) -> list[str]:
        """The command line."""
        asked = ["export", verb, "--topic", self.topic, "--out", str(self.out), "--bootstrap-server", self.bootstrap]
        return [*asked, *options]

    def command(self, verb: str, *options: str) -> list[str]:
        """For a process of its own."""
        return [sys.executable, "-m", "kafkad", *self.words(verb, *options)]

    def apart(self, verb: str, *options: str, code: int = 0) -> str:
        """As `run`, in a process of its own."""
        done = subprocess.run(self.command(verb, *options), capture_output=True, text=True, timeout=WITHIN_S)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def done(self, verb: str, *options: str) -> Result:
        return kafkad(*self.words(verb, *options))

    def run(self, verb: str, *options: str, code: int = 0) -> str:
        """What it printed; where it fails as it should, what it said on standard error."""
        done = self.done(verb, *options)
        assert done.exit_code == code, done.output
        return done.stdout if code == 0 else done.stderr

    def records(self, *options: str) -> pa.Table:
        paths = self.run("files", *options).splitlines()
        return pa.concat_tables([pq.ParquetFile(path).read() for path in paths])

    def dead_letters(self, *options: str) -> pa.Table:
        return self.records("--dead-letters", *options)


def kafkad(*words: str) -> Result:
    """The command in this process; an exception that no user should see is raised."""
    return CliRunner().invoke(main, words, prog_name="kafkad", catch_exceptions=False)


def one_line(said: str) -> str:
    assert said.count("\n") == 1 and said.startswith("kafkad: "), said
    return said
