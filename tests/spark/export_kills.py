"""An export in rounds, while its processes and its broker are killed and transactions are written.

    python -m tests.spark.export_kills --engine spark --source files --format delta --kills 50

Victims, by chance: the driver, its JVM, an executor's JVM, a worker (Python), all processes of the broker. At the end
the table has each committed record once and no aborted one, as an independent consumer (read_committed) says.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import Process, eventually, is_alive, read_process
from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient
from tests.spark.conftest import SHORT_LIVED

CHECKOUT = Path(__file__).parents[2]
TOPIC = "orders"
PARTITIONS = 3
WITHIN_S = 300.0
_MARK = "KAFKAD_EXPORT_OF_RUN"
_BEFORE_KILL_S = (0.0, 3.0)
_WORDS = {
    "driver": ("kafkad", "export"),
    "driver JVM": ("org.apache.spark.deploy.SparkSubmit",),
    "executor JVM": ("CoarseGrainedExecutorBackend",),
    "worker": ("pyspark.daemon",),
    "process": ("multiprocessing.spawn", "spawn_main"),
}
"""What the command line of each victim has."""
_SPARK = {
    "spark.master": "local-cluster[1,2,512]",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.task.maxFailures": "4",
}


class Run(NamedTuple):
    """What was done, and what came of it."""

    kills: dict[str, int]
    rounds: int
    starts: int
    committed: int
    aborted: int
    seconds: float


class Ledger:
    """What each transaction wrote: who was told of its end knows whether it counts."""

    def __init__(self) -> None:
        self.committed: set[bytes] = set()
        self.aborted: set[bytes] = set()


def write_transactions(bootstrap: str, seed: random.Random, ledger: Ledger, stop: threading.Event) -> None:
    """Transactions, a third of them aborted, until told to stop; a broker that is away is waited for."""
    count = 0
    while not stop.is_set():
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": "orders",
                "reconnect.backoff.max.ms": 200,
                "compression.type": seed.choice(["none", "lz4", "zstd"]),
                "log_level": 0,
            }
        )
        try:
            _insist(partial(producer.init_transactions, WITHIN_S))
            while not stop.is_set():
                values = [b"%d %s" % (number, b"x" * 100) for number in range(count, count + seed.randrange(1, 400))]
                count += len(values)
                _write_one(producer, seed, values, ledger)
                stop.wait(seed.choice([0.0, 0.02, 0.2]))
        except KafkaException as failed:
            # A fatal error of this producer: its open transaction is aborted when the next one begins.
            if not failed.args[0].fatal() and failed.args[0].code() != KafkaError._STATE:
                raise


def _write_one(producer: Producer, seed: random.Random, values: list[bytes], ledger: Ledger) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(TOPIC, value, partition=seed.randrange(PARTITIONS))
        producer.poll(0)
    keeps = seed.random() < 2 / 3
    try:
        if keeps:
            _insist(lambda: producer.commit_transaction(WITHIN_S))
            ledger.committed.update(values)
            return
    except KafkaException as failed:
        if not failed.args[0].txn_requires_abort():
            raise
    _insist(lambda: producer.abort_transaction(WITHIN_S))
    ledger.aborted.update(values)


def _insist(step: Callable[[], object]) -> None:
    while True:
        try:
            step()
        except KafkaException as failed:
            if not failed.args[0].retriable():
                raise
        else:
            return


class Exporter:
    """`kafkad export run --every`, and every process that came of it."""

    def __init__(self, folder: Path, engine: str, source: str, table: str, bootstrap: str) -> None:
        self._engine = engine
        self._mark = f"{os.getpid()}-{random.random()}"
        self._output = folder / "export.log"
        self._environment = {**os.environ, _MARK: self._mark, "PYSPARK_PYTHON": sys.executable}
        if engine == "spark":
            conf = folder / "conf"
            conf.mkdir()
            lines = [f"{name} {value}\n" for name, value in _SPARK.items()]
            (conf / "spark-defaults.conf").write_text("".join(lines))
            (conf / "log4j2.properties").write_text("rootLogger.level = off\n")
            self._environment |= {"SPARK_CONF_DIR": str(conf), "PYTHONPATH": str(CHECKOUT)}
        self.command = [
            *(sys.executable, "-m", "kafkad", "export"),
            *("--topic", TOPIC, "--out", str(folder / "table"), "--bootstrap-server", bootstrap),
            *("--source", source, "--format", table, "--timeout", "5"),
        ]
        self._running: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def verb(self, name: str, *options: str) -> list[str]:
        return [*self.command[:4], name, *self.command[4:], *options]

    def ensure(self) -> None:
        """Start it, unless it is running."""
        if self._running is not None and self._running.poll() is None:
            return
        self.starts += 1
        options = ["--every", "1s", "--json", "--engine", self._engine, "--jobs", "2"]
        with self._output.open("ab") as output:
            self._running = subprocess.Popen(
                self.verb("run", *options), stdout=output, stderr=output, env=self._environment, cwd=CHECKOUT
            )

    def rounds(self) -> int:
        """How many have made a commit until now."""
        lines = self._output.read_text(errors="replace").splitlines() if self._output.exists() else []
        return sum('"commit": ' in line and '"commit": null' not in line for line in lines)

    def processes(self, victim: str) -> list[Process]:
        return [process for process, words in self._all() if all(word in words for word in _WORDS[victim])]

    def stop(self) -> None:
        if self._running is not None:
            self._running.terminate()
            self._running.wait(WITHIN_S)
        for process, _ in self._all():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        eventually(lambda: not self._all(), what="every process of the export is gone")

    def tail(self) -> str:
        return "\n".join(self._output.read_text(errors="replace").splitlines()[-20:])

    def _all(self) -> list[tuple[Process, str]]:
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                if f"{_MARK}={self._mark}".encode() not in Path("/proc", name, "environ").read_bytes():
                    continue
                words = Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            process = read_process(int(name))
            if process is not None and is_alive(process):
                found.append((process, words))
        return found


def run(folder: Path, *, engine: str, source: str, table: str, kills: int, seed: int) -> Run:
    """Raises AssertionError when a record is missing, doubled or should not be there."""
    began_s = time.monotonic()
    chance = random.Random(seed)
    ledger, stop, done = Ledger(), threading.Event(), Counter[str]()
    with Kafkad(folder / "broker", {"log.segment.bytes": "1048576"}) as broker:
        with BrokerClient(broker.bootstrap) as client:
            client.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=BROKER_DEFAULT, configs={})
        exporter = Exporter(folder, engine, source, table, broker.bootstrap)
        with _writing(broker.bootstrap, random.Random(seed), ledger, stop), _stopping(exporter):
            while sum(done.values()) < kills:
                exporter.ensure()
                done[_kill_one(broker, exporter, engine, chance)] += 1
            stop.set()
        rounds = exporter.rounds()
        _export_the_rest(exporter)
        _check(broker.bootstrap, exporter, ledger)
    seconds = time.monotonic() - began_s
    return Run(dict(done), rounds, exporter.starts, len(ledger.committed), len(ledger.aborted), round(seconds, 1))


def _kill_one(broker: Kafkad, exporter: Exporter, engine: str, chance: random.Random) -> str:
    """Kill somebody at some moment of some round. Returns whom."""
    victims = ["driver", "driver JVM", "executor JVM", "worker"] if engine == "spark" else ["driver", "process"]
    victim = chance.choice([*victims, "broker"])
    before = exporter.rounds()
    continues = chance.random() < 0.5
    deadline_s = time.monotonic() + chance.uniform(*_BEFORE_KILL_S) + (0 if continues else WITHIN_S)
    while time.monotonic() < deadline_s and (continues or exporter.rounds() == before):
        exporter.ensure()
        time.sleep(0.01)
    if victim == "broker":
        broker.kill()
        time.sleep(chance.uniform(0, 0.5))
        broker.start()
        return victim
    found: list[Process] = []
    deadline_s = time.monotonic() + WITHIN_S
    while not found:
        assert time.monotonic() < deadline_s, f"there is no {victim}:\n{exporter.tail()}"
        exporter.ensure()
        found = exporter.processes(victim)
        # To look takes as long: the processes that are waited for need the core, too.
        time.sleep(0.02)
    time.sleep(chance.choice([0.0, 0.0, 0.05, 0.3]))
    process = chance.choice(found)
    with suppress(ProcessLookupError):
        if is_alive(process):
            os.kill(process.pid, signal.SIGKILL)
    return victim


@contextmanager
def _writing(bootstrap: str, seed: random.Random, ledger: Ledger, stop: threading.Event) -> Iterator[None]:
    failures: list[Exception] = []

    def write() -> None:
        try:
            write_transactions(bootstrap, seed, ledger, stop)
        except (KafkaException, OSError) as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, failures


@contextmanager
def _stopping(exporter: Exporter) -> Iterator[None]:
    try:
        yield
    finally:
        exporter.stop()


def _export_the_rest(exporter: Exporter) -> None:
    for _ in range(2):
        said = subprocess.run(exporter.verb("run", "--json"), capture_output=True, text=True, timeout=WITHIN_S)
        assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["commit"] is None, said.stdout


def _check(bootstrap: str, exporter: Exporter, ledger: Ledger) -> None:
    subprocess.run(exporter.verb("maintain", "--older-than", "0"), check=True, timeout=WITHIN_S, capture_output=True)
    listed = subprocess.run(exporter.verb("files"), check=True, timeout=WITHIN_S, capture_output=True, text=True)
    exported = Counter[bytes]()
    for path in listed.stdout.splitlines():
        exported.update(pq.ParquetFile(path).read(["value"]).column("value").to_pylist())
    there = set(_consumed(bootstrap))
    doubled = {value for value, times in exported.items() if times > 1}
    assert not doubled, f"{len(doubled)} records are there twice"
    assert exported.keys() == there, f"{len(there - exported.keys())} missing, {len(exported.keys() - there)} too many"
    assert not ledger.committed - exported.keys() and not ledger.aborted & exported.keys()
    subprocess.run(exporter.verb("verify"), check=True, timeout=WITHIN_S, capture_output=True)


def _consumed(bootstrap: str) -> Iterator[bytes]:
    """Every committed record, by librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    at_end: set[int] = set()
    deadline_s = time.monotonic() + WITHIN_S
    while len(at_end) < PARTITIONS:
        assert time.monotonic() < deadline_s, "the consumer does not reach the end"
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            at_end.add(message.partition() or 0)
            continue
        value = message.value()
        assert isinstance(value, bytes)
        yield value
    consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=["local", "spark"], default="local")
    parser.add_argument("--source", choices=["broker", "files"], default="broker")
    parser.add_argument("--format", choices=["parquet", "delta", "iceberg"], default="parquet")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    requested = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        done = run(
            Path(folder),
            engine=requested.engine,
            source=requested.source,
            table=requested.format,
            kills=requested.kills,
            seed=requested.seed,
        )
    print(done)


if __name__ == "__main__":
    main()
