"""What docs/plugins.md says of plugins that raise: whom it costs what. Assignors: tests/core/groups.

Real, as it is about processes that end and are started again, or do not end. One broker has all plugins that end a
process while it serves, another one those that end none.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from bench.brokers.daemon import Kafkad
from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S, eventually
from kafkad.client.broker_client import BrokerClient
from kafkad.client.connection import BrokerCallFailed

ERROR = "no such luck"
AGAIN = "restarting it in "

POLICY = """
class Policy:
    name = {name!r}
    def plan(self, log, config, now_ms):
        {plan}

@hookimpl
def kafkad_register_cleanup_policies():
    return [Policy()]
"""
RAISES = POLICY.format(name="raises", plan="raise ValueError('no such luck')")
NEVER_RETURNS = POLICY.format(name="never-returns", plan="import time; time.sleep(1_000_000)")
UNINTERRUPTED = POLICY.format(
    name="uninterrupted",
    plan="import signal, threading\n"
    "        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n"
    "        threading.Event().wait()",
)

STRATEGY = """
class Fails:
    name = "fails"
    def elect(self, assignment, isr, live, context):
        if context.topic == "unlucky":
            raise ValueError("no luck in an election")
        return None if context.topic == "leaderless" else min(isr & live)

@hookimpl
def kafkad_register_leader_election_strategies():
    return [Fails()]
"""

REPORTER = """
from pathlib import Path

class Fails:
    name = "fails"
    is_polled = True
    def start(self, settings, host):
        {start}
    def report(self, snapshot):
        {report}
    def stop(self):
        {stop}

def fail(*_):
    raise ValueError("no such luck")

def fail_in_a_page(*_):
    raise ValueError("no luck in a page")

@hookimpl
def kafkad_register_metrics_reporters():
    return [Fails()]
"""

IN_REPORTS_AND_PAGES = REPORTER.format(
    start="host.add_page('/fails', fail_in_a_page)",
    report="if Path(__file__).with_suffix('.now').exists(): fail()",
    stop="pass",
)

OBSERVER = """
@hookimpl
def kafkad_broker_{moment}(info):
    raise ValueError("no such luck")
"""

QUOTAS = """
class Fails:
    name = "fails"
    is_unlimited = False
    def configure(self, settings):
        {configure}
    def record_produce(self, client, size, now_ms):
        if "unlucky" in str(client):
            raise ValueError("no luck with a quota")
        return 0
    def record_fetch(self, client, size, now_ms):
        return 0
    def unrecord_fetch(self, client, size, now_ms):
        pass
    def max_fetch_bytes(self, client):
        return None
    def drain_local(self):
        return []
    def record_remote(self, client, produced, fetched, now_ms):
        pass

@hookimpl
def kafkad_register_quota_managers():
    return [Fails()]
"""

TOPIC_CONFIG = """
class Fails:
    def problem(self, value):
        raise ValueError("no such luck")

@hookimpl
def kafkad_register_topic_configs():
    fails = TopicConfig(
        name="kafkad.plugin.x", type=SettingType.INT, default=None, documentation="X.", validator=Fails()
    )
    return [fails]
"""


def with_plugins(scratch: Path, *plugins: str) -> dict[str, str]:
    """A broker's settings with a folder that holds these plugins."""
    folder = scratch / "plugins"
    folder.mkdir()
    imports = "from kafkad.api import SettingType, TopicConfig, hookimpl\n"
    for number, plugin in enumerate(plugins):
        (folder / f"fails{number}.py").write_text(imports + plugin)
    return {"kafkad.plugins.dir": str(folder)}


OFTEN = {"log.retention.check.interval.ms": "50", "log.initial.task.delay.ms": "0"}


@pytest.fixture(scope="module")
def enduring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    """Its plugins end no process."""
    scratch = tmp_path_factory.mktemp("enduring")
    settings = OFTEN | with_plugins(scratch, RAISES, NEVER_RETURNS, TOPIC_CONFIG)
    with Kafkad(scratch / "broker", settings) as broker:
        yield broker
        assert AGAIN not in broker.output.read_text(), "no process has ended"


@pytest.fixture(scope="module")
def restarting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    """Its plugins end the processes that they run in."""
    scratch = tmp_path_factory.mktemp("restarting")
    settings = OFTEN | {
        "kafkad.leader.election.strategy": "fails",
        "kafkad.quota.manager": "fails",
        "kafkad.metrics.reporters": "fails",
        "kafkad.metrics.listener": f"127.0.0.1:{free_port()}",
        "kafka.metrics.polling.interval.secs": "1",
    }
    settings |= with_plugins(scratch, IN_REPORTS_AND_PAGES, STRATEGY, QUOTAS.format(configure="pass"), UNINTERRUPTED)
    with Kafkad(scratch / "broker", settings) as broker:
        yield broker


def ask_for_page(port: int, path: str) -> None:
    """Ask for a page that gets no answer; nobody listens yet when the reporter is still on its way up."""
    address = ("127.0.0.1", port)
    with suppress(ConnectionError, TimeoutError), socket.create_connection(address, timeout=1) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        connection.recv(1)


def ended(broker: Kafkad, process: str, error: str) -> bool:
    """Whether the log says that this process met the exception, and that it is started again."""
    said = broker.output.read_text()
    return error in said and any(process in line and AGAIN in line for line in said.splitlines())


def begin(settings: dict[str, str], scratch: Path) -> "subprocess.Popen[str]":
    """A start that will fail."""
    own = {"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}", "log.dirs": str(scratch / "data")}
    overrides = [part for name, text in {**own, **settings}.items() for part in ("--override", f"{name}={text}")]
    command = [sys.executable, "-m", "kafkad", "start", *overrides]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def create(broker: Kafkad, topic: str, **configs: str) -> None:
    with BrokerClient(broker.bootstrap) as client:
        client.create_topic(topic, partitions=1, replication_factor=1, configs=configs)


def test_a_register_hook_that_raises_stops_the_start_with_one_line(tmp_path: Path) -> None:
    process = begin(with_plugins(tmp_path, RAISES.replace("return [Policy()]", "return 1 / 0")), tmp_path)
    said = process.communicate(timeout=WITHIN_S)[1]
    where = f"plugin fails0 ({tmp_path / 'plugins' / 'fails0.py'})"
    cause = "kafkad_register_cleanup_policies failed: ZeroDivisionError: division by zero"
    assert (process.returncode, said) == (2, f"kafkad: {where}: {cause}\n")


def test_a_cleanup_policy_that_raises_costs_its_partition_the_cleaning(enduring: Kafkad) -> None:
    create(enduring, "raising", **{"cleanup.policy": "raises"})
    assert produced(enduring, "raising", "anybody") is None
    line = "raising-0 is not cleaned by policy 'raises' until its configuration changes: the policy failed"
    eventually(lambda: line in enduring.output.read_text(), what="the log says so")
    assert ERROR in enduring.output.read_text()


def test_a_cleanup_policy_that_never_returns_costs_its_partition_the_cleaning(enduring: Kafkad) -> None:
    create(enduring, "stuck", **{"cleanup.policy": "never-returns"})
    assert produced(enduring, "stuck", "anybody") is None
    line = "stuck-0 is not cleaned by policy 'never-returns' of plugin fails1, retrying in 60 s"
    eventually(lambda: line in enduring.output.read_text(), what="the log says so")
    others_are_cleaned(enduring, "other")


def others_are_cleaned(broker: Kafkad, topic: str) -> None:
    create(broker, topic, **{"retention.ms": "1"})
    assert produced(broker, topic, "anybody") is None
    line = f"{topic}-0: log start offset increased from "
    eventually(lambda: line in broker.output.read_text(), what="the other partition is cleaned")


def test_a_cleanup_policy_that_can_not_be_interrupted_costs_its_partition_the_cleaning(restarting: Kafkad) -> None:
    """Its cleaner is killed for it, and the one after that; then the partition is left alone for a while."""
    create(restarting, "stuck", **{"cleanup.policy": "uninterrupted"})
    assert produced(restarting, "stuck", "anybody") is None
    line = "cannot clean stuck-0, retrying in 60 s"
    eventually(lambda: line in restarting.output.read_text(), what="the log says so")
    others_are_cleaned(restarting, "cleaned")


def test_an_election_strategy_decides_and_if_it_raises_ends_the_controller_and_fails_the_request(
    restarting: Kafkad,
) -> None:
    create(restarting, "leaderless")
    with BrokerClient(restarting.bootstrap) as client:
        (topic,) = client.topics(["leaderless"])
    assert topic.partitions[0].leader == -1
    create(restarting, "lucky")
    with pytest.raises(BrokerCallFailed, match="died while it handled the request"):
        create(restarting, "unlucky")
    assert ended(restarting, "controller-0", "no luck in an election")
    said = restarting.output.read_text()
    assert "the controller died while it handled CreateTopics" in said
    assert said.count("controller-0 exited with exit code") == 1, "the next one never gets the request"
    assert produced(restarting, "lucky", "anybody") is None, "the topic is served on"
    create(restarting, "luckier")


def test_a_quota_manager_that_raises_costs_the_connection_of_the_request(restarting: Kafkad) -> None:
    create(restarting, "t")
    assert produced(restarting, "t", "unlucky", patience_s=1) is not None
    line = "failed: ValueError: no luck with a quota"
    eventually(lambda: line in restarting.output.read_text(), what="the log says so")
    assert produced(restarting, "t", "anybody") is None
    assert not ended(restarting, "network-0", line)


def test_a_metrics_reporter_that_raises_ends_the_reporter_process(restarting: Kafkad) -> None:
    port = int(restarting.overrides["kafkad.metrics.listener"].rpartition(":")[2])

    def asked_until_it_ended() -> bool:
        if not ended(restarting, "reporter-0", "no luck in a page"):
            ask_for_page(port, "/fails")
        return ended(restarting, "reporter-0", "no luck in a page")

    eventually(asked_until_it_ended, what="the log says so of the page")
    now = Path(restarting.overrides["kafkad.plugins.dir"], "fails0.now")
    now.touch()
    eventually(lambda: ended(restarting, "reporter-0", ERROR), what="the log says so of the report")
    now.unlink()
    create(restarting, "reported")
    assert produced(restarting, "reported", "anybody") is None


def test_what_raises_when_it_is_begun_is_tried_again_before_the_broker_serves(tmp_path: Path) -> None:
    """How often, and that the start fails then: test_supervisor.py and tests/core/supervision."""
    reporter = REPORTER.format(start="fail()", report="pass", stop="pass")
    quotas = QUOTAS.format(configure=f"raise ValueError('{ERROR}')")
    for option, plugin, name in (
        ("kafkad.metrics.reporters", reporter, "reporter-0"),
        ("kafkad.quota.manager", quotas, "network-0"),
    ):
        scratch = tmp_path / option
        scratch.mkdir()
        said = ""
        with begin({**with_plugins(scratch, plugin), option: "fails"}, scratch) as process:
            assert process.stderr is not None
            while f"{name} exited with exit code 70 (2 times within ten minutes); {AGAIN}" not in said:
                line = process.stderr.readline()
                assert line, said
                said += line
            process.terminate()
            said += process.communicate(timeout=WITHIN_S)[1]
        assert ERROR in said
        assert "is ready" not in said


def test_an_observer_of_the_start_that_raises_ends_the_reporter_process_again_and_again(tmp_path: Path) -> None:
    with Kafkad(tmp_path / "broker", with_plugins(tmp_path, OBSERVER.format(moment="started"))) as broker:
        again = "reporter-0 exited with exit code 70 (3 times within ten minutes); restarting it in "
        eventually(lambda: again in broker.output.read_text(), what="it has ended three times")
        create(broker, "t")
        assert produced(broker, "t", "anybody") is None


@pytest.mark.parametrize(
    "plugin", [OBSERVER.format(moment="stopping"), REPORTER.format(start="pass", report="pass", stop="fail()")]
)
def test_what_raises_while_the_broker_stops_is_logged_and_the_stop_goes_on(plugin: str, tmp_path: Path) -> None:
    named = {"kafkad.metrics.reporters": "fails"} if "metrics_reporters" in plugin else {}
    with Kafkad(tmp_path / "broker", {**with_plugins(tmp_path, plugin), **named}) as broker:
        create(broker, "t")
    said = broker.output.read_text()
    assert ERROR in said
    assert AGAIN not in said
    with Kafkad(tmp_path / "broker") as broker:
        assert "recover" not in broker.output.read_text().lower(), "the stop was a clean one"


def test_a_validator_that_raises_refuses_the_value_and_nothing_else(enduring: Kafkad) -> None:
    with pytest.raises(BrokerCallFailed, match=ERROR):
        create(enduring, "validated", **{"kafkad.plugin.x": "1"})
    create(enduring, "validated")


def produced(broker: Kafkad, topic: str, client_id: str, *, patience_s: float = WITHIN_S) -> KafkaError | None:
    """The error that this client is left with."""
    errors: list[KafkaError | None] = []
    settings = {"bootstrap.servers": broker.bootstrap, "client.id": client_id}
    producer = Producer({**settings, "message.timeout.ms": int(patience_s * 1000)})
    producer.produce(topic, b"a record", callback=lambda error, _: errors.append(error))
    producer.flush(WITHIN_S)
    return errors[0]
