"""What docs/plugins.md says of plugins that raise: whom it costs what, in a real broker. Assignors: test_plugins.py."""

import socket
import subprocess
import sys
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
AGAIN = "it is started again"

POLICY = """
class Fails:
    name = "fails"
    def plan(self, log, config, now_ms):
        raise ValueError("no such luck")

@hookimpl
def kafkad_register_cleanup_policies():
    return [Fails()]
"""

UNINTERRUPTED = """
        import signal, threading
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        threading.Event().wait()
"""

STRATEGY = """
class Fails:
    name = "fails"
    def elect(self, assignment, isr, live, context):
        if context.topic == "unlucky":
            raise ValueError("no such luck")
        return min(isr & live)

@hookimpl
def kafkad_register_leader_election_strategies():
    return [Fails()]
"""

REPORTER = """
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

@hookimpl
def kafkad_register_metrics_reporters():
    return [Fails()]
"""

FAILING_PAGE = REPORTER.format(start="host.add_page('/fails', fail)", report="pass", stop="pass")

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
            raise ValueError("no such luck")
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


def settings_with(plugin: str, scratch: Path, **settings: str) -> dict[str, str]:
    """A broker's settings with a folder that holds this plugin."""
    folder = scratch / "plugins"
    folder.mkdir()
    (folder / "fails.py").write_text("from kafkad.api import SettingType, TopicConfig, hookimpl\n" + plugin)
    return {"kafkad.plugins.dir": str(folder)} | {name.replace("_", "."): text for name, text in settings.items()}


def ask_for_page(port: int, path: str) -> None:
    """Ask for a page that gets no answer; nobody listens yet when the reporter is still on its way up."""
    address = ("127.0.0.1", port)
    with suppress(ConnectionError, TimeoutError), socket.create_connection(address, timeout=1) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        connection.recv(1)


def ended(broker: Kafkad, process: str) -> bool:
    """Whether the log says that this process met the exception, and that it is started again."""
    said = broker.output.read_text()
    return ERROR in said and any(process in line and AGAIN in line for line in said.splitlines())


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
    plugin = POLICY.replace("return [Fails()]", "return 1 / 0")
    process = begin(settings_with(plugin, tmp_path), tmp_path)
    said = process.communicate(timeout=WITHIN_S)[1]
    where = f"plugin fails ({tmp_path / 'plugins' / 'fails.py'})"
    cause = "kafkad_register_cleanup_policies failed: ZeroDivisionError: division by zero"
    assert (process.returncode, said) == (2, f"kafkad: {where}: {cause}\n")


def test_a_cleanup_policy_that_raises_costs_its_partition_the_cleaning(tmp_path: Path) -> None:
    often = {"log_retention_check_interval_ms": "50", "log_initial_task_delay_ms": "0"}
    with Kafkad(tmp_path / "broker", settings_with(POLICY, tmp_path, **often)) as broker:
        create(broker, "t", **{"cleanup.policy": "fails"})
        assert produced(broker, "t", "anybody") is None
        line = "t-0 is not cleaned by policy 'fails' until its configuration changes: the policy failed"
        eventually(lambda: line in broker.output.read_text(), what="the log says so")
        said = broker.output.read_text()
        assert ERROR in said
        assert AGAIN not in said, "no cleaner has ended"


def test_a_cleanup_policy_that_never_returns_costs_its_partition_the_cleaning(tmp_path: Path) -> None:
    policy = POLICY.replace('raise ValueError("no such luck")', "time.sleep(1_000_000)").replace(
        "class Fails", "import time\nclass Fails"
    )
    often = {"log_retention_check_interval_ms": "50", "log_initial_task_delay_ms": "0"}
    with Kafkad(tmp_path / "broker", settings_with(policy, tmp_path, **often)) as broker:
        create(broker, "stuck", **{"cleanup.policy": "fails"})
        create(broker, "t", **{"retention.ms": "1"})
        assert produced(broker, "stuck", "anybody") is None
        line = "stuck-0 is not cleaned by policy 'fails' of plugin fails, which is asked again in 60 s"
        eventually(lambda: line in broker.output.read_text(), what="the log says so")
        assert produced(broker, "t", "anybody") is None
        line = "t-0: the log starts at "
        eventually(lambda: line in broker.output.read_text(), what="the other partition is cleaned")
        said = broker.output.read_text()
        assert said.count("stuck-0 is not cleaned") == 1
        assert AGAIN not in said, "no cleaner has ended"


def test_a_cleanup_policy_that_can_not_be_interrupted_costs_its_partition_the_cleaning(tmp_path: Path) -> None:
    """Its cleaner is killed for it, and the one after that; then the partition is left alone for a while."""
    policy = POLICY.replace('raise ValueError("no such luck")', UNINTERRUPTED)
    often = {"log_retention_check_interval_ms": "50", "log_initial_task_delay_ms": "0"}
    with Kafkad(tmp_path / "broker", settings_with(policy, tmp_path, **often)) as broker:
        create(broker, "stuck", **{"cleanup.policy": "fails"})
        create(broker, "t", **{"retention.ms": "1"})
        assert produced(broker, "stuck", "anybody") is None
        line = "stuck-0 is not cleaned, and is tried again in 60 s"
        eventually(lambda: line in broker.output.read_text(), what="the log says so")
        assert produced(broker, "t", "anybody") is None
        line = "t-0: the log starts at "
        eventually(lambda: line in broker.output.read_text(), what="the other partition is cleaned")
        said = broker.output.read_text()
        assert said.count("stuck-0 is not cleaned") == 1


def test_an_election_strategy_that_raises_ends_the_controller_and_the_connection_that_asked(tmp_path: Path) -> None:
    settings = settings_with(STRATEGY, tmp_path, kafkad_leader_election_strategy="fails")
    with Kafkad(tmp_path / "broker", settings) as broker:
        create(broker, "lucky")
        with pytest.raises(BrokerCallFailed, match="closed the connection"):
            create(broker, "unlucky")
        assert ended(broker, "controller-0")
        assert "the controller ended twice while it answered this request" in broker.output.read_text()
        assert produced(broker, "lucky", "anybody") is None, "no other process has ended"
        create(broker, "luckier")


def test_a_quota_manager_that_raises_ends_the_network_process_and_its_connections(tmp_path: Path) -> None:
    settings = settings_with(QUOTAS.format(configure="pass"), tmp_path, kafkad_quota_manager="fails")
    with Kafkad(tmp_path / "broker", settings) as broker:
        create(broker, "t")
        assert produced(broker, "t", "unlucky", patience_s=1) is not None
        eventually(lambda: ended(broker, "network-0"), what="the log says so")
        assert produced(broker, "t", "anybody") is None


REPORT = REPORTER.format(start="pass", report="fail()", stop="pass")


@pytest.mark.parametrize(
    ("plugin", "asked"), [(REPORT, False), (FAILING_PAGE, True)], ids=["in a report", "in a page of its own"]
)
def test_a_metrics_reporter_that_raises_ends_the_reporter_process(plugin: str, asked: bool, tmp_path: Path) -> None:
    port = free_port()
    settings = settings_with(plugin, tmp_path, kafkad_metrics_reporters="fails") | {
        "kafkad.metrics.listener": f"127.0.0.1:{port}",
        "kafka.metrics.polling.interval.secs": "1",
    }

    def asked_until_it_ended() -> bool:
        if asked and not ended(broker, "reporter-0"):
            ask_for_page(port, "/fails")
        return ended(broker, "reporter-0")

    with Kafkad(tmp_path / "broker", settings) as broker:
        eventually(asked_until_it_ended, what="the log says so")
        create(broker, "t")
        assert produced(broker, "t", "anybody") is None


def test_what_raises_when_it_is_begun_is_tried_ten_times_again_and_then_stops_the_start(tmp_path: Path) -> None:
    reporter = REPORTER.format(start="fail()", report="pass", stop="pass")
    quotas = QUOTAS.format(configure=f"raise ValueError('{ERROR}')")
    starts = []
    for option, plugin in (("kafkad_metrics_reporters", reporter), ("kafkad_quota_manager", quotas)):
        scratch = tmp_path / option
        scratch.mkdir()
        starts.append(begin(settings_with(plugin, scratch, **{option: "fails"}), scratch))
    for process, name in zip(starts, ("reporter-0", "network-0"), strict=True):
        said = process.communicate(timeout=4 * WITHIN_S)[1]
        assert process.returncode == 1
        assert ERROR in said
        assert f"the broker stops: {name} ended 11 times before the broker could serve" in said


def test_an_observer_of_the_start_that_raises_ends_the_reporter_process_again_and_again(tmp_path: Path) -> None:
    with Kafkad(tmp_path / "broker", settings_with(OBSERVER.format(moment="started"), tmp_path)) as broker:
        again = "reporter-0 ended with exit code 70 (3 times within ten minutes); it is started again"
        eventually(lambda: again in broker.output.read_text(), what="it has ended three times")
        create(broker, "t")
        assert produced(broker, "t", "anybody") is None


@pytest.mark.parametrize(
    "plugin", [OBSERVER.format(moment="stopping"), REPORTER.format(start="pass", report="pass", stop="fail()")]
)
def test_what_raises_while_the_broker_stops_is_logged_and_the_stop_goes_on(plugin: str, tmp_path: Path) -> None:
    named = {"kafkad_metrics_reporters": "fails"} if "metrics_reporters" in plugin else {}
    with Kafkad(tmp_path / "broker", settings_with(plugin, tmp_path, **named)) as broker:
        create(broker, "t")
    said = broker.output.read_text()
    assert ERROR in said
    assert AGAIN not in said
    with Kafkad(tmp_path / "broker") as broker:
        assert "recover" not in broker.output.read_text().lower(), "the stop was a clean one"


def test_a_validator_that_raises_refuses_the_value_and_nothing_else(tmp_path: Path) -> None:
    with Kafkad(tmp_path / "broker", settings_with(TOPIC_CONFIG, tmp_path)) as broker:
        with pytest.raises(BrokerCallFailed, match=ERROR):
            create(broker, "t", **{"kafkad.plugin.x": "1"})
        create(broker, "t")
        assert AGAIN not in broker.output.read_text(), "no controller has ended"


def produced(broker: Kafkad, topic: str, client_id: str, *, patience_s: float = WITHIN_S) -> KafkaError | None:
    """The error that this client is left with."""
    errors: list[KafkaError | None] = []
    settings = {"bootstrap.servers": broker.bootstrap, "client.id": client_id}
    producer = Producer({**settings, "message.timeout.ms": int(patience_s * 1000)})
    producer.produce(topic, b"a record", callback=lambda error, _: errors.append(error))
    producer.flush(WITHIN_S)
    return errors[0]
