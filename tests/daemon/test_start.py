"""`kafkad start`, `dev` and `stop` as real processes: what they print, how signals end them, what they leave."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.brokers.daemon import Kafkad
from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S, eventually, is_alive, process_tree
from kafkad.client.broker_client import BrokerClient
from tests.tools import raw_requests as raw
from tests.tools.raw_requests import RawClient

KAFKAD = [sys.executable, "-m", "kafkad"]


@contextmanager
def _dev(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", dict[str, str]]]:
    """A throw-away broker that serves, and the facts that it printed."""
    with subprocess.Popen(
        [*KAFKAD, "dev", "--json", *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            if process.poll() is None:
                process.kill()


def test_a_life_without_trouble_has_its_banner_and_nothing_to_warn_of(tmp_path: Path) -> None:
    broker = Kafkad(tmp_path)
    for expected in ([], ["orders"]):
        with broker, BrokerClient(broker.bootstrap) as client:
            assert [topic.name for topic in client.topics()] == expected
            if not expected:
                client.create_topic("orders", partitions=3, replication_factor=1, configs={})
            with RawClient(broker.port) as producer:
                producer.ask(raw.produce({("orders", 0): raw.batch()}))
            eventually(lambda: "confluent_kafka" in broker.tail(), what="the banner is printed")
            printed = broker.tail()
    assert "is ready after" in printed
    assert f"listens on  {broker.bootstrap} (PLAINTEXT)" in printed
    assert "advertises  " in printed
    assert f"data        {broker.log_dir}" in printed
    assert f"-b {broker.bootstrap} -t demo" in printed
    lines = broker.output.read_text().splitlines()
    assert [line for line in lines if re.match(r"(\[.*\] (WARNING|ERROR|CRITICAL)|kafkad:) ", line)] == []


def test_broker_stops_in_order_when_interrupted(tmp_path: Path) -> None:
    """SIGTERM ends most brokers of these tests."""
    broker = Kafkad(tmp_path)
    broker.start()
    children = process_tree(broker.pid)[1:]
    os.kill(broker.pid, signal.SIGINT)
    _, status = os.waitpid(broker.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, broker.tail()
    assert "Traceback" not in broker.tail()
    eventually(lambda: not any(map(is_alive, children)), what="the children end")


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGUSR1])
def test_a_broker_that_is_asked_for_its_stacks_writes_them_and_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    """SIGQUIT is what people send to a JVM, and Ctrl-\\ in a terminal sends it to all processes."""
    with Kafkad(tmp_path) as broker:
        tree = broker.tree()
        for each in tree:
            os.kill(each.pid, number)
        eventually(lambda: broker.output.read_text().count("Current thread") == len(tree), what="all have written")
        assert [each.pid for each in broker.tree()] == [each.pid for each in tree]
        with BrokerClient(broker.bootstrap) as client:
            client.create_topic("t", partitions=1, replication_factor=1, configs={})


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_throw_away_broker_serves_at_the_address_that_it_prints_and_leaves_nothing_behind(
    told: signal.Signals,
) -> None:
    port = free_port()
    asked = ["--port", str(port)] if told == signal.SIGINT else []
    with _dev(*asked) as (process, facts):
        with BrokerClient(facts["bootstrap"]) as client:
            assert client.topics() == []
        assert facts["bootstrap"] == f"127.0.0.1:{port}" or not asked
        assert Path(facts["log_dir"]).is_dir()
        tree = process_tree(process.pid)
        process.send_signal(told)
        assert process.wait(WITHIN_S) == 0
    assert not Path(facts["log_dir"]).parent.exists()
    eventually(lambda: not any(map(is_alive, tree)), what="every process ends")


def test_throw_away_broker_that_can_not_start_leaves_nothing_behind(tmp_path: Path) -> None:
    outcome = subprocess.run(
        [*KAFKAD, "dev", "--override", "no.such.option=1"],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert outcome.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_replies_on_their_way_arrive_although_the_client_goes_on_asking(tmp_path: Path) -> None:
    with Kafkad(tmp_path) as broker, RawClient(broker.port) as client:
        client.ask(raw.create_topic("t"))
        client.ask(raw.produce({("t", 0): raw.batch(size=60_000)}))
        waiting = raw.fetch({("t", 0): 1}, max_wait_ms=60_000, correlation=8)
        late = b"".join(raw.api_versions(correlation=100 + number) for number in range(5_000))
        client.send(raw.fetch({("t", 0): 0}, correlation=7) + waiting + late)
        eventually(lambda: client.has_input(), what="the first reply is on its way")
        os.kill(broker.pid, signal.SIGTERM)
        assert client.reply()[0] == 7
        correlation, body = client.reply()
        assert (correlation, raw.read_fetched(body)["t", 0].error) == (8, 0)
        assert client.is_closed_by_peer()
        assert broker.stop() == 0


def _stop(broker: Kafkad, *arguments: str) -> subprocess.CompletedProcess[str]:
    pairs = [f"log.dirs={broker.log_dir}", f"kafkad.runtime.dir={broker.overrides['kafkad.runtime.dir']}"]
    overrides = [word for pair in pairs for word in ("--override", pair)]
    return subprocess.run([*KAFKAD, "stop", *overrides, *arguments], capture_output=True, text=True, timeout=WITHIN_S)


def test_a_broker_is_stopped_by_name_of_its_directories(tmp_path: Path) -> None:
    """Of two that share a runtime directory the other one goes on; one that was killed is not there any more."""
    with TemporaryDirectory() as run, ExitStack() as ends:
        shared = {"kafkad.runtime.dir": run}
        broker, other = (ends.enter_context(Kafkad(tmp_path / name, shared)) for name in "ab")
        eventually(lambda: "is ready after" in other.tail(), what="the banner is printed")
        assert "metrics" not in other.output.read_text(), "it is silent about the port that the first one has"
        stopped = _stop(broker)
        assert (stopped.returncode, stopped.stderr) == (0, "")
        assert stopped.stdout == f"The broker with log.dirs={broker.log_dir} (pid {broker.pid}) has stopped.\n"
        assert (broker.log_dir / ".kafka_cleanshutdown").exists(), "in order"
        again = _stop(broker)
        assert (again.returncode, again.stdout) == (1, "")
        assert again.stderr == (
            f"kafkad: no broker with log.dirs={broker.log_dir} and kafkad.runtime.dir={run} is running on this host; "
            f"log directories of running brokers: {other.log_dir} (pid {other.pid})\n"
        )
        other.kill()
        assert _stop(other).stderr.endswith(f"kafkad.runtime.dir={run} is running on this host\n")
