"""`kafkad transactions` beside kafka-transactions, both on the same broker, which is Apache Kafka and then ours."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers.apache import ApacheKafka
from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually
from kafkad.core.log.records.record import NewRecord, build_batch
from tests.tools.raw_requests import RawClient, produce, read_produced
from tests.tools.tool_server import ToolServer

HOUR_MS = 3_600_000
UNVERIFIED = {"transaction.partition.verification.enable": "false"}


@pytest.fixture(scope="module")
def server() -> Iterator[ToolServer]:
    with ToolServer() as server:
        yield server


class Commands:
    """Ours and Kafka's, against one broker whose partitions believe every producer: so a transaction can hang."""

    def __init__(self, broker: RunningBroker, server: ToolServer) -> None:
        self.broker = broker
        self._server = server
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for name in ("t", "hung"):
            admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        command = [sys.executable, "-m", "kafkad", "transactions", *arguments]
        return subprocess.run(
            [*command, "--bootstrap-server", self.broker.bootstrap], capture_output=True, timeout=WITHIN_S
        )

    def ours(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ours(*arguments, "--json"))

    def theirs(self, *arguments: str) -> str:
        done = self._server.run("kafka-transactions", "--bootstrap-server", self.broker.bootstrap, *arguments)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def refusal(self, *arguments: str, code: int = 1) -> str:
        done = self.run(*arguments)
        assert (done.returncode, done.stdout) == (code, b"")
        return done.stderr.decode().splitlines()[-1]

    def producer(self, transactional_id: str) -> Producer:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "transactional.id": transactional_id})
        producer.init_transactions(30)
        return producer

    def hang(self, topic: str, partition: int, producer_id: int) -> int:
        """A transaction without a coordinator, an hour old; returns the offset where it begins."""
        now_ms = time.time_ns() // 1_000_000
        batch = bytes(
            build_batch(
                [NewRecord(now_ms - HOUR_MS, None, b"lost")],
                producer_id=producer_id,
                producer_epoch=3,
                base_sequence=0,
                is_transactional=True,
            )
        )
        with RawClient(self.broker.port) as client:
            (row,) = read_produced(client.ask(_transactional(produce({(topic, partition): batch}, acks=-1)))).values()
        assert row.error == 0
        return row.base_offset


def _transactional(request: bytes) -> bytes:
    """With a transactional id where there is none."""
    changed = request[4:17] + b"\x00\x04hung" + request[19:]
    return len(changed).to_bytes(4, "big") + changed


@pytest.fixture(scope="module", params=[ApacheKafka, Kafkad], ids=["apache", "kafkad"])
def commands(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, server: ToolServer
) -> Iterator[Commands]:
    with request.param(tmp_path_factory.mktemp("transactions"), UNVERIFIED) as broker:
        yield Commands(broker, server)


def without_duration(text: str) -> str:
    """How long it has lasted goes on while one looks."""
    return re.sub(r"\d+ *(?=\t[^\t]*\t$)", "", text, flags=re.MULTILINE)


def test_transactions_are_listed_and_described_alike(commands: Commands) -> None:
    done, opened = commands.producer("done"), commands.producer("opened")
    done.begin_transaction()
    done.produce("t", b"x", partition=1)
    done.commit_transaction(30)
    opened.begin_transaction()
    opened.produce("t", b"x", partition=0)
    opened.flush(30)
    eventually(
        lambda: [row["state"] for row in commands.json("list")] == ["CompleteCommit", "Ongoing"],
        what="the marker is written",
    )
    assert sorted(commands.ours("list").splitlines()) == sorted(commands.theirs("list").splitlines())
    for name in ("done", "opened"):
        ours = commands.ours("describe", name)
        theirs = commands.theirs("describe", "--transactional-id", name)
        assert without_duration(ours) == without_duration(theirs)
    opened.produce("t", b"x", partition=1)
    opened.flush(30)
    # Kafka's tool prints several in no order.
    assert sorted(commands.json("describe", "opened")["partitions"]) == [["t", 0], ["t", 1]]
    assert commands.json("list", "--transactional-id-pattern", "op.*")[0]["transactional_id"] == "opened"
    assert commands.json("list", "--duration-filter", "600000") == []
    opened.abort_transaction(30)


def test_an_id_that_is_not_there_is_one_line(commands: Commands) -> None:
    assert commands.refusal("describe", "nobody") == (
        "kafkad: transactional id 'nobody' can't be described: TRANSACTIONAL_ID_NOT_FOUND"
    )


@pytest.mark.parametrize("by", ["start", "producer"])
def test_a_hanging_transaction_is_found_and_aborted(commands: Commands, by: str) -> None:
    partition = 0 if by == "start" else 1
    start = commands.hang("hung", partition, 900_000 + partition)
    where = ("--topic", "hung", "--partition", str(partition))
    ours = commands.ours("find-hanging", *where)
    assert ours == commands.theirs("find-hanging", *where)
    (row,) = commands.json("find-hanging", *where)
    assert (row["producer_id"], row["start_offset"]) == (900_000 + partition, start)
    chosen: tuple[str, ...] = ("--start-offset", str(start))
    if by == "producer":
        chosen = ("--producer-id", str(row["producer_id"]), "--producer-epoch", "3", "--coordinator-epoch", "-1")
    assert commands.ours("abort", *where, *chosen) == ""
    assert commands.json("find-hanging", *where) == []
    assert commands.theirs("find-hanging", *where) == commands.ours("find-hanging", *where)
    assert commands.refusal("abort", *where, "--start-offset", str(start)) == (
        f"kafkad: no open transaction begins at offset {start} of hung-{partition}"
    )


def test_kafkas_tool_aborts_a_hanging_transaction(commands: Commands) -> None:
    start = commands.hang("hung", 0, 900_010)
    commands.theirs("abort", "--topic", "hung", "--partition", "0", "--start-offset", str(start))
    assert commands.json("find-hanging", "--topic", "hung") == []


def test_what_does_not_say_which_transaction_is_wrong_usage(commands: Commands) -> None:
    where = ("--topic", "hung", "--partition", "0")
    assert "--start-offset" in commands.refusal("abort", *where, "--producer-id", "5", code=2)
    assert "--topic" in commands.refusal("find-hanging", code=2)
    assert "--topic" in commands.refusal("find-hanging", "--broker-id", "1", "--partition", "0", code=2)
