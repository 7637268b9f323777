"""Stock Apache Kafka as one KRaft node, the reference of the compatibility tests and of the benchmark.

Kafka's own tool formats its storage. All options that affect a comparison have their defaults.
"""

import base64
import uuid
from collections.abc import Mapping
from pathlib import Path

from bench.brokers.broker import RunningBroker
from bench.brokers.java import broker_command, kafka_tool
from bench.brokers.ports import free_port


class ApacheKafka(RunningBroker):
    """Broker and controller in one JVM, on loopback only."""

    name = "Apache Kafka"
    clean_exits = frozenset({0, 143})  # a JVM exits with the signal after a graceful stop

    def __init__(self, folder: Path, overrides: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, overrides)
        self._properties = folder / "server.properties"
        self.controller_port = free_port()
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")

    def command(self) -> list[str]:
        return broker_command(self._properties)

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self._settings() | self.overrides
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        # One word, because an id may begin with a dash, like an option.
        args = ["format", f"--cluster-id={self.cluster_id}", "-c", str(self._properties)]
        # Eligible leader replicas exist with several brokers only, and would show in each topic's settings.
        done = kafka_tool("kafka-storage", *args, "--feature", "eligible.leader.replicas.version=0")
        assert done.returncode == 0, f"kafka-storage format: {done.stderr.decode()}"

    def _settings(self) -> dict[str, str]:
        controller = f"127.0.0.1:{self.controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.log_dir),
            # One broker can't have the three default replicas of internal topics.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
