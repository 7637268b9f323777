"""Kafka's own tools on a cluster of three brokers: partitions move, and every broker answers for its configuration."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkad.cli import main
from tests.daemon.cluster import Cluster
from tests.tools.tool_server import ToolServer


class ToolsOnCluster:
    def __init__(self, cluster: Cluster, server: ToolServer, folder: Path) -> None:
        self.cluster = cluster
        self._server = server
        self._folder = folder

    def run(self, broker: int, name: str, *args: str) -> str:
        """What the tool prints; it must succeed."""
        done = self._server.run(name, "--bootstrap-server", self.cluster.brokers[broker].bootstrap, *args)
        assert done.returncode == 0, (done.stdout.decode(), done.stderr.decode())
        return done.stdout.decode()

    def generated(self, *args: str) -> tuple[str, list[list[int]]]:
        """The file with kafkad's own plan, and the replicas in it."""
        asked = ["reassign", "generate", *args, "--bootstrap-server", self.cluster.brokers[1].bootstrap]
        done = CliRunner().invoke(main, asked)
        assert done.exit_code == 0, done.output
        present, plan = [line for line in done.stdout.splitlines() if line.startswith("{")]
        assert present != plan
        file = self._folder / "generated.json"
        file.write_text(plan)
        return str(file), [row["replicas"] for row in json.loads(plan)["partitions"]]

    def plan(self, replicas: list[list[int]]) -> str:
        file = self._folder / "plan.json"
        rows = [{"topic": "t", "partition": index, "replicas": each} for index, each in enumerate(replicas)]
        file.write_text(json.dumps({"version": 1, "partitions": rows}))
        return str(file)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolsOnCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with ExitStack() as ends:
        cluster = Cluster(folder, ends)
        cluster.create(3, "t", {0: [1, 2], 1: [2, 1], 2: [1, 2]})
        cluster.wait_until(lambda: cluster.leaders(3, "t") == [1, 2, 1], "broker 3 knows the leaders")
        cluster.produce(2, range(300))
        yield ToolsOnCluster(cluster, ends.enter_context(ToolServer()), folder)


def test_kafka_reassign_partitions_moves_partitions(tools: ToolsOnCluster) -> None:
    cluster, plan = tools.cluster, tools.plan([[3, 1], [2, 3], [3, 2]])
    printed = tools.run(2, "kafka-reassign-partitions", "--reassignment-json-file", plan, "--execute")
    assert "Successfully started partition reassignments for t-0,t-1,t-2" in printed

    def is_verified() -> bool:
        said = tools.run(3, "kafka-reassign-partitions", "--reassignment-json-file", plan, "--verify")
        return all(f"Reassignment of partition t-{each} is completed." in said for each in range(3))

    cluster.wait_until(is_verified, "they have moved")
    assert "No partition reassignments found." in tools.run(1, "kafka-reassign-partitions", "--list")
    assert [row["replica_nodes"] for row in cluster.rows(1, "t")] == [[3, 1], [2, 3], [3, 2]]
    assert cluster.consume(1, "g", 300) == sorted(range(300))


def test_kafka_reassign_partitions_cancels(tools: ToolsOnCluster) -> None:
    printed = tools.run(
        1, "kafka-reassign-partitions", "--reassignment-json-file", tools.plan([[1, 2], [1, 2], [1, 2]]), "--cancel"
    )
    assert "None of the specified partition reassignments are active." in printed


def test_kafka_reassign_partitions_throttles_and_verify_removes_it(tools: ToolsOnCluster) -> None:
    cluster, plan, wanted = tools.cluster, *tools.generated("t", "--to", "1,3")
    of_plan = ("kafka-reassign-partitions", "--reassignment-json-file", plan)
    printed = tools.run(2, *of_plan, "--execute", "--throttle", "50000000")
    assert "The inter-broker throttle limit was set to 50000000 B/s" in printed
    of_topic = ("kafka-configs", "--entity-type", "topics", "--entity-name", "t", "--describe")
    of_broker = ("kafka-configs", "--entity-type", "brokers", "--entity-name", "1", "--describe")
    assert "leader.replication.throttled.replicas=" in tools.run(1, *of_topic)
    assert "follower.replication.throttled.rate=50000000" in tools.run(1, *of_broker)

    cluster.wait_until(lambda: "is still in progress" not in tools.run(3, *of_plan, "--verify"), "they have moved")
    assert "throttled" not in tools.run(1, *of_topic)
    assert "throttled" not in tools.run(1, *of_broker)
    assert [row["replica_nodes"] for row in cluster.rows(1, "t")] == wanted


def test_kafka_configs_finds_the_broker_that_it_names(tools: ToolsOnCluster) -> None:
    for broker in (1, 2, 3):
        of = ("--entity-type", "brokers", "--entity-name", str(broker))
        segment = str(2_000_000 + broker)
        tools.run(3, "kafka-configs", *of, "--alter", "--add-config", f"log.segment.bytes={segment}")
        tools.run(1, "kafka-configs", *of, "--alter", "--add-config", "message.max.bytes=2000000")
    for broker in (1, 2, 3):
        of = ("--entity-type", "brokers", "--entity-name", str(broker))

        def is_set(of: tuple[str, ...] = of, segment: str = str(2_000_000 + broker)) -> bool:
            said = tools.run(2, "kafka-configs", *of, "--describe")
            return f"log.segment.bytes={segment} " in said and "message.max.bytes=2000000 " in said

        tools.cluster.wait_until(is_set, f"broker {broker} says its own")
    of = ("--entity-type", "brokers", "--entity-name", "2")
    tools.run(3, "kafka-configs", *of, "--alter", "--delete-config", "message.max.bytes")
    assert "message.max.bytes" not in tools.run(2, "kafka-configs", *of, "--describe")
