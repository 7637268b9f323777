"""Partitions of a cluster move to other brokers, as real clients and commands ask for it, and other tools did."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka import TopicPartition  # type: ignore[import-untyped]
from kafka.admin import KafkaAdminClient  # type: ignore[import-untyped]

from bench.brokers.zookeeper import ZookeeperServer
from kafkad.cli import main
from tests.daemon.cluster import Cluster, kafkad
from tests.daemon.shared_cluster import SharedCluster


def partitions(cluster: Cluster) -> list[TopicPartition]:
    return [TopicPartition(cluster.topic, index) for index in range(3)]


@pytest.fixture
def led(cluster: SharedCluster) -> SharedCluster:
    """Its topic is led by brokers 1 and 2."""
    cluster.create_led(3, cluster.topic, {0: [1, 2], 1: [2, 1], 2: [1, 2]})
    return cluster


@pytest.fixture(scope="module")
def _without_groups(tmp_path_factory: pytest.TempPathFactory, zookeeper: ZookeeperServer) -> Iterator[Cluster]:
    with ExitStack() as ends:
        yield Cluster(tmp_path_factory.mktemp("without-groups"), ends, zookeeper)


@pytest.fixture
def without_groups(_without_groups: Cluster) -> Iterator[Cluster]:
    """It has no internal topics, whose replicas are on all three brokers, and one listener."""
    _without_groups.create_led(3, "t", {0: [1, 2], 1: [2, 1], 2: [1, 2]})
    yield _without_groups
    _without_groups.end_test()


def replicas(cluster: Cluster, broker: int) -> list[list[int]]:
    return [row["replica_nodes"] for row in cluster.rows(broker, cluster.topic)]


def directories(cluster: Cluster, broker: int) -> set[int]:
    """The partitions of which it has a directory."""
    return {int(name.rpartition("-")[2]) for name in cluster.directories(broker, cluster.topic)}


def no_refusal(client: KafkaAdminClient, targets: dict[TopicPartition, list[int] | None]) -> bool:
    return set(client.alter_partition_reassignments(targets).values()) == {None}


def test_partitions_move_while_producers_go_on(led: SharedCluster) -> None:
    cluster, (first, second, _) = led, partitions(led)
    cluster.produce(3, range(300))
    client = cluster.admin(3)
    assert no_refusal(client, {first: [3, 2], second: [3, 1]})
    cluster.produce(1, range(300, 600))
    cluster.wait_until(lambda: client.list_partition_reassignments() == {}, "they have moved")
    client.close()
    for broker in (1, 2, 3):
        cluster.wait_until(
            lambda broker=broker: replicas(cluster, broker) == [[3, 2], [3, 1], [1, 2]],  # type: ignore[misc]
            "all know",
        )
    cluster.wait_until(lambda: cluster.leaders(1, cluster.topic)[1] == 3, "who is not in the target leads no more")
    cluster.wait_until(lambda: cluster.in_sync(1, cluster.topic) == [{2, 3}, {1, 3}, {1, 2}], "all are in sync")
    cluster.wait_until(
        lambda: [directories(cluster, each) for each in (1, 2, 3)] == [{1, 2}, {0, 2}, {0, 1}],
        "the old files are gone",
    )
    cluster.produce(2, range(600, 900))
    assert cluster.consume(1, "g", 900) == sorted(range(900))


def test_the_command_line_moves_partitions_and_leaders(led: SharedCluster, tmp_path: Path) -> None:
    cluster, topic = led, led.topic
    assert [line.split()[0] for line in kafkad(cluster, "brokers", "list")[1:]] == ["1", "2", "3"]
    assert kafkad(cluster, "reassign", "start", f"{topic}-0", f"{topic}-1", "--to", "3,1") == [
        f"{topic}-0 has been moved to brokers 3,1.",
        f"{topic}-1 has been moved to brokers 3,1.",
    ]
    assert len(kafkad(cluster, "reassign", "list")) == 1
    plans = json.loads("".join(kafkad(cluster, "reassign", "generate", topic, "--to", "2,3", "--json")))
    assert [row["replicas"] for row in plans["current"]["partitions"]] == [[3, 1], [3, 1], [1, 2]]
    assert all(sorted(row["replicas"]) == [2, 3] for row in plans["proposed"]["partitions"])
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [3, 1]}]}))
    assert kafkad(cluster, "reassign", "verify", str(plan)) == [f"{topic}-0 has the replicas of the plan."]
    assert kafkad(cluster, "reassign", "execute", str(plan)) == [f"{topic}-0 has been moved according to the plan."]
    cluster.wait_until(lambda: replicas(cluster, 2) == [[3, 1], [3, 1], [1, 2]], "broker 2 knows")
    assert cluster.leaders(2, topic) == [1, 3, 1]
    assert f"{topic}-0 is led by its preferred replica." in kafkad(cluster, "elect-leaders")
    cluster.wait_until(lambda: cluster.leaders(2, topic) == [3, 3, 1], "the preferred replica leads")
    assert kafkad(cluster, "elect-leaders", topic) == ["No partition needs another leader."]
    refused = CliRunner().invoke(
        main, ["reassign", "cancel", f"{topic}-2", "--bootstrap-server", cluster.brokers[3].bootstrap]
    )
    assert (refused.exit_code, refused.stderr) == (1, f"kafkad: {topic}-2: NO_REASSIGNMENT_IN_PROGRESS\n")


def test_a_broker_that_is_drained_has_no_partition(without_groups: Cluster) -> None:
    cluster = without_groups
    cluster.produce(3, range(300))
    assert kafkad(cluster, "brokers", "drain", "1") == [f"t-{index} has left broker 1." for index in range(3)]
    cluster.wait_until(lambda: replicas(cluster, 2) == [[3, 2], [2, 3], [3, 2]], "broker 2 knows")
    cluster.wait_until(lambda: directories(cluster, 1) == set(), "its files are gone")
    assert kafkad(cluster, "brokers", "drain", "1") == ["Broker 1 has no partition."]
    cluster.kill_for_good(1)
    cluster.produce(3, range(300, 600))
    cluster.kill_for_good(2)
    cluster.wait_until(lambda: cluster.known(3) == {3}, "broker 3 knows that it is alone")
    shown = CliRunner().invoke(main, ["brokers", "list", "--bootstrap-server", cluster.brokers[3].bootstrap]).stdout
    assert [line.split() for line in shown.splitlines()[1:]] == [
        ["2", "unregistered", "-", "no", "0", "3", "3"],
        ["3", cluster.brokers[3].bootstrap, "-", "yes", "3", "3", "0"],
    ]
    cluster.brokers[2].start()
    refused = CliRunner().invoke(main, ["brokers", "drain", "9", "--bootstrap-server", cluster.brokers[2].bootstrap])
    assert (refused.exit_code, "broker 9 does not exist" in refused.stderr) == (1, True)


def test_a_broker_that_leads_nothing_any_more_stays_in_sync(without_groups: Cluster) -> None:
    cluster, topic = without_groups, "t"
    named = cluster.brokers[1].bootstrap
    lines = [f"{topic}-{index} has another leader than broker 1." for index in (0, 2)]
    assert kafkad(cluster, "brokers", "drain", named, "--leaders-only") == lines
    cluster.wait_until(lambda: cluster.leaders(3, topic) == [2, 2, 2], "others lead")
    assert replicas(cluster, 3) == [[2, 1]] * 3
    assert cluster.in_sync(3, topic) == [{1, 2}] * 3
    assert kafkad(cluster, "elect-leaders") == ["No partition needs another leader."], "it is preferred nowhere"
    assert kafkad(cluster, "brokers", "drain", named, "--leaders-only") == [
        "Broker 1 leads no partition and is no preferred leader."
    ]

    cluster.brokers[1].kill()
    cluster.wait_until(lambda: cluster.in_sync(3, topic) == [{2}] * 3, "broker 2 is alone")
    refused = CliRunner().invoke(
        main, ["brokers", "drain", "2", "--leaders-only", "--bootstrap-server", cluster.brokers[3].bootstrap]
    )
    assert (refused.exit_code, refused.stdout) == (1, "")
    lines = [f"kafkad: {topic}-{index}: no other replica is in sync" for index in range(3)]
    assert refused.stderr.splitlines() == lines
    assert cluster.leaders(3, topic) == [2, 2, 2]


def test_nodes_that_tools_of_old_write_are_carried_out_and_removed(led: SharedCluster) -> None:
    """kafka-reassign-partitions.sh and kafka-preferred-replica-election.sh with --zookeeper, as up to Kafka 2.x."""
    cluster, topic = led, led.topic
    cluster.produce(3, range(300))
    rows = [{"topic": topic, "partition": 0, "replicas": [3, 1]}, {"topic": topic, "partition": 7, "replicas": [3]}]
    order = json.dumps({"version": 1, "partitions": rows})
    cluster.zookeeper.create("/admin/reassign_partitions", order.encode())
    cluster.wait_until(lambda: cluster.zookeeper.exists("/admin/reassign_partitions") is None, "it is carried out")
    cluster.wait_until(lambda: replicas(cluster, 2) == [[3, 1], [2, 1], [1, 2]], "it is where the node says")

    cluster.wait_until(lambda: cluster.leaders(2, topic)[0] == 1, "the leader stays, as it is in the target")
    order = json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0}]})
    cluster.zookeeper.create("/admin/preferred_replica_election", order.encode())
    cluster.wait_until(lambda: cluster.leaders(2, topic)[0] == 3, "the preferred replica leads")
    assert cluster.zookeeper.exists("/admin/preferred_replica_election") is None
    assert cluster.consume(2, "g", 300) == sorted(range(300))

    # kafka-topics.sh --zookeeper --alter --partitions
    data, _ = cluster.zookeeper.get(f"/brokers/topics/{topic}")
    node = json.loads(data)
    node["partitions"]["3"] = [2, 3]
    cluster.zookeeper.set(f"/brokers/topics/{topic}", json.dumps(node).encode())
    cluster.wait_until(lambda: cluster.leaders(1, cluster.topic) == [3, 2, 1, 2], "the new partition is led")
    cluster.wait_until(lambda: cluster.in_sync(3, topic)[3] == {2, 3}, "and followed")
