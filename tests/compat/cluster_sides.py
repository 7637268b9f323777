"""A cluster of one real broker, whose other brokers are registrations only: the test speaks for them.

The same tree is in ZooKeeper for kafkad and for Apache Kafka, with the same topic ids, so that the same bytes can be
sent to both. Only the epochs of the played brokers differ: ZooKeeper gives them.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any
from uuid import UUID

from kazoo.client import KazooClient

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import eventually
from kafkad.core.controller.store import nodes
from kafkad.wire.api_table import CLUSTER_APIS
from kafkad.wire.cluster.schema import Message
from tests.compat.group_sides import Side, comparable
from tests.daemon.cluster_broker import SESSION_TIMEOUT_MS
from tests.tools.raw_requests import RawClient, framed

Responses = list[tuple[str, int, Any]]
"""What was asked, in which version, and the whole answer."""


class PlayedCluster:
    """`played` are the brokers that only their registrations are there of."""

    def __init__(self, broker: RunningBroker, hosts: str, played: Mapping[int, int], ends: ExitStack) -> None:
        """`played`: the port that nobody listens on, by broker id."""
        self.broker = broker
        self._zookeeper = KazooClient(hosts, timeout=SESSION_TIMEOUT_MS / 1_000)
        self._zookeeper.start()
        ends.callback(self._zookeeper.close)
        ends.callback(self._zookeeper.stop)
        self.epochs = {each: self._register(each, port) for each, port in played.items()}
        self.side = ends.enter_context(Side(broker, "played"))
        self.member = self.side.member("played")
        self.client = ends.enter_context(RawClient(broker.port))
        self.answers: Responses = []
        self.controller_epoch = 1_000
        """The newest that the test has used in the controller's place."""
        # A controller that is being elected reads the registrations before the topics: it could miss a broker.
        eventually(self._knows_all_brokers, what=f"{broker.name} names the played brokers")

    def _register(self, broker: int, port: int) -> int:
        """As Apache Kafka's own; returns the broker's epoch."""
        registration = {
            "features": {},
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"],
            "jmx_port": -1,
            "port": port,
            "host": "127.0.0.1",
            "version": 5,
            "timestamp": "1795254954966",
        }
        data = json.dumps(registration).encode()
        _, stat = self._zookeeper.create(f"{nodes.BROKER_IDS}/{broker}", data, ephemeral=True, include_data=True)
        return int(stat.czxid)

    def _knows_all_brokers(self) -> bool:
        values = {"topics": (), "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
        return self.epochs.keys() <= {int(each.node_id) for each in self.member.ask("metadata", 12, **values).brokers}

    def make(self, name: str, topic_id: UUID, assignments: Mapping[int, list[int]]) -> None:
        """As tools did that wrote to ZooKeeper themselves; the controller gives each partition its first replica."""
        text = nodes.encode_id(topic_id)
        node = {
            "version": 3,
            "topic_id": text,
            "partitions": {str(index): replicas for index, replicas in assignments.items()},
            "adding_replicas": {},
            "removing_replicas": {},
        }
        self._zookeeper.create(nodes.topic_path(name), json.dumps(node).encode())
        eventually(
            lambda: all(self._zookeeper.exists(nodes.state_path(name, index)) for index in assignments),
            what=f"{self.broker.name} has made {name}",
        )

    def ask(self, what: str, key: int, message: Message[Any, Any], version: int, request: object) -> Any:
        """The whole answer, which is written down."""
        is_flexible = version >= CLUSTER_APIS[key].flexible_from
        body = message.encode_request(request, version)
        answer = self.client.ask(framed(key, version, (b"\0" if is_flexible else b"") + body))
        response = message.decode_response(memoryview(answer)[is_flexible:], version)
        self.answers.append((what, version, comparable(response)))
        return response

    def ask_client_api(self, what: str, api: str, version: int, **values: Any) -> Any:
        answer = self.member.ask(api, version, **values)
        told = comparable(answer)
        for row in told.get("node_endpoints", ()):
            # By nature another port on each side.
            if row["port"] == self.broker.port:
                row["port"] = "OWN PORT"
        self.answers.append((what, version, told))
        return answer

    def take(self) -> Responses:
        taken, self.answers = self.answers, []
        return taken
