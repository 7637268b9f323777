"""Kafka Connect, distributed, with its file connectors: lines of a file go through a topic into another file."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from bench.brokers.broker import RunningBroker
from bench.brokers.jars import kafka_libs
from bench.brokers.java import class_path
from bench.brokers.ports import free_port
from bench.brokers.processes import WITHIN_S, eventually

NewTopic = Callable[[str], str]
_SETTINGS = """\
bootstrap.servers={bootstrap}
group.id={name}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.topic={name}-offsets
offset.storage.replication.factor=1
offset.storage.partitions=3
config.storage.topic={name}-configs
config.storage.replication.factor=1
status.storage.topic={name}-status
status.storage.replication.factor=1
status.storage.partitions=3
offset.flush.interval.ms=500
task.shutdown.graceful.timeout.ms=60000
exactly.once.source.support=enabled
listeners=http://127.0.0.1:{port}
plugin.discovery=service_load
plugin.path={plugins}
"""
_FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
_FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


class ConnectWorker:
    """One worker of Connect, asked through its REST interface."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """GET, or PUT of `body`, which may be said twice. Before a rebalance a worker wants to be asked again."""
        content = json.dumps(body).encode() if body is not None else None
        method, headers = "GET" if body is None else "PUT", {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, content, headers, method=method)
        answers: list[Any] = []

        def is_answered() -> bool:
            try:
                with urllib.request.urlopen(request, timeout=WITHIN_S) as answer:
                    answers.append(json.load(answer))
            except urllib.error.HTTPError as error:
                if error.code != HTTPStatus.CONFLICT:
                    raise
            return bool(answers)

        eventually(is_answered, what=f"{path} is answered by something else than a conflict")
        return answers[0]

    def is_up(self) -> bool:
        try:
            return bool(self.ask("/"))
        except (urllib.error.URLError, ConnectionError):
            return False

    def runs(self, connector: str) -> bool:
        try:
            status = self.ask(f"/connectors/{connector}/status")
        except urllib.error.HTTPError:
            return False
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        assert "FAILED" not in states, status
        return len(states) > 1 and set(states) == {"RUNNING"}


@contextmanager
def connect_worker(broker: RunningBroker, name: str, folder: Path) -> Iterator[ConnectWorker]:
    folder.mkdir()
    port = free_port()
    settings = _SETTINGS.format(bootstrap=broker.bootstrap, name=name, port=port, plugins=kafka_libs())
    (folder / "connect.properties").write_text(settings)
    command = ["java", "-Xmx384M", "-XX:TieredStopAtLevel=1", *class_path()]
    command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(folder / "connect.properties")]
    with open(folder / "output.log", "wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        worker = ConnectWorker(port)
        eventually(worker.is_up, what="Connect answers")
        yield worker
        process.terminate()
        process.wait(WITHIN_S)
    finally:
        process.kill()
        process.wait()
        print("\n".join((folder / "output.log").read_text(errors="replace").splitlines()[-40:]))


def test_a_file_goes_through_a_topic_into_a_file(broker: RunningBroker, new_topic: NewTopic, tmp_path: Path) -> None:
    name = new_topic("connect")
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    source.write_text("".join(f"line {number}\n" for number in range(1_000)))
    sink.touch()
    with connect_worker(broker, name, tmp_path / "first") as worker:
        _connect(worker, "source", _FILE_SOURCE, file=str(source), topic=name, **{"exactly.once.support": "required"})
        _connect(worker, "sink", _FILE_SINK, file=str(sink), topics=name)
        eventually(lambda: sink.read_text() == source.read_text(), what="the file has come through")
    # Another worker takes over: connectors, offsets and state are in the topics, and nothing comes twice.
    with open(source, "a") as more:
        more.write("".join(f"line {number}\n" for number in range(1_000, 1_500)))
    with connect_worker(broker, name, tmp_path / "second") as worker:
        assert set(worker.ask("/connectors")) == {"source", "sink"}
        eventually(lambda: sink.read_text() == source.read_text(), what="the rest has come through")


def _connect(worker: ConnectWorker, name: str, kind: str, **settings: str) -> None:
    worker.ask(f"/connectors/{name}/config", {"connector.class": kind, "tasks.max": "1", **settings})
    eventually(lambda: worker.runs(name), what=f"{name} runs")
