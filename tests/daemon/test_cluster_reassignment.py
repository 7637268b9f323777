"""Partitions of a cluster move to other brokers, also when the controller changes."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import TopicPartition  # type: ignore[import-untyped]
from kafka.admin import KafkaAdminClient  # type: ignore[import-untyped]

from kafkad.cli import main
from tests.daemon.cluster import Cluster, kafkad

FIRST, SECOND, THIRD = (TopicPartition("t", index) for index in range(3))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as ends:
        made = Cluster(tmp_path, ends)
        made.create(3, "t", {0: [1, 2], 1: [2, 1], 2: [1, 2]})
        made.wait_until(lambda: made.leaders(3, "t") == [1, 2, 1], "broker 3 knows the leaders")
        yield made


def replicas(cluster: Cluster, broker: int) -> list[list[int]]:
    return [row["replica_nodes"] for row in cluster.rows(broker, "t")]


def directories(cluster: Cluster, broker: int) -> set[str]:
    return {path.name for path in cluster.brokers[broker].log_dir.glob("t-[0-9]")}


def listed(client: KafkaAdminClient) -> Any:
    return client.list_partition_reassignments()


def no_refusal(client: KafkaAdminClient, targets: dict[TopicPartition, list[int] | None]) -> bool:
    return set(client.alter_partition_reassignments(targets).values()) == {None}


@pytest.mark.timeout(600)
def test_partitions_move_while_producers_go_on(cluster: Cluster) -> None:
    cluster.produce(3, range(300))
    client = cluster.admin(3)
    assert no_refusal(client, {FIRST: [3, 2], SECOND: [3, 1]})
    cluster.produce(1, range(300, 600))
    cluster.wait_until(lambda: client.list_partition_reassignments() == {}, "they have moved")
    client.close()
    for broker in (1, 2, 3):
        cluster.wait_until(
            lambda broker=broker: replicas(cluster, broker) == [[3, 2], [3, 1], [1, 2]],  # type: ignore[misc]
            "all know",
        )
    cluster.wait_until(lambda: cluster.leaders(1, "t")[1] == 3, "who is not in the target leads no more")
    cluster.wait_until(lambda: cluster.in_sync(1, "t") == [{2, 3}, {1, 3}, {1, 2}], "all are in sync")
    cluster.wait_until(
        lambda: [directories(cluster, each) for each in (1, 2, 3)] == [{"t-1", "t-2"}, {"t-0", "t-2"}, {"t-0", "t-1"}],
        "the old files are gone",
    )
    cluster.produce(2, range(600, 900))
    assert cluster.consume(1, "g", 900) == sorted(range(900))
    assert [cluster.brokers[each].stop() for each in (3, 2, 1)] == [0, 0, 0]


def answered(cluster: Cluster, ask: Callable[[KafkaAdminClient], Any]) -> Any:
    """The client may first find a broker that is away."""
    answers: list[Any] = []

    def is_answered() -> bool:
        client = cluster.admin(2)
        try:
            answers.append(ask(client))
        finally:
            client.close()
        return True

    cluster.wait_until(is_answered, "broker 2 answers")
    return answers[0]


def is_begun_without(cluster: Cluster, broker: int, targets: dict[TopicPartition, list[int] | None]) -> bool:
    """Kill the broker, and reassign before its session ends; False: the controller was told first."""
    client = cluster.admin(2)
    try:
        client.list_partition_reassignments()
        cluster.brokers[broker].kill()
        if no_refusal(client, targets):
            return True
    finally:
        client.close()
    cluster.brokers[broker].start()
    cluster.wait_until(lambda: broker in cluster.known(2), "it is back")
    return False


@pytest.mark.timeout(600)
def test_the_next_controller_goes_on_with_what_is_under_way_and_not_with_what_was_cancelled(cluster: Cluster) -> None:
    cluster.produce(3, range(300))
    assert cluster.controller(3) == 1
    wanted = {FIRST: [3, 2], SECOND: None, THIRD: [3, 2]}
    while not is_begun_without(cluster, 3, {at: each for at, each in wanted.items() if each}):
        continue
    moving = {"replicas": [3, 2, 1], "adding_replicas": [3], "removing_replicas": [1]}
    assert answered(cluster, listed) == {FIRST: moving, THIRD: moving}
    refusals = answered(cluster, lambda client: client.alter_partition_reassignments({FIRST: None, SECOND: None}))
    assert [refusals[FIRST], refusals[SECOND].__name__] == [None, "NoReassignmentInProgressError"]
    assert answered(cluster, listed) == {THIRD: moving}

    cluster.brokers[1].kill()
    cluster.wait_until(lambda: cluster.controller(2) == 2, "broker 2 is the controller")
    assert answered(cluster, listed) == {THIRD: moving}
    cluster.brokers[3].start()
    cluster.wait_until(lambda: answered(cluster, listed) == {}, "the new replica is in sync")
    cluster.brokers[1].start()
    cluster.wait_until(lambda: replicas(cluster, 1) == [[2, 1], [2, 1], [3, 2]], "the one that is back knows")
    cluster.wait_until(lambda: cluster.in_sync(1, "t") == [{1, 2}, {1, 2}, {2, 3}], "all are in sync")
    cluster.wait_until(lambda: directories(cluster, 1) == {"t-0", "t-1"}, "what it had to give up is not there")
    cluster.produce(1, range(300, 600))
    assert cluster.consume(2, "g", 600) == sorted(range(600))


@pytest.mark.timeout(600)
def test_the_command_line_moves_partitions_and_leaders(cluster: Cluster, tmp_path: Path) -> None:
    assert [line.split()[0] for line in kafkad(cluster, "brokers", "list")[1:]] == ["1", "2", "3"]
    assert kafkad(cluster, "reassign", "start", "t-0", "t-1", "--to", "3,1") == [
        "t-0 has gone to brokers 3,1.",
        "t-1 has gone to brokers 3,1.",
    ]
    assert len(kafkad(cluster, "reassign", "list")) == 1
    plans = json.loads("".join(kafkad(cluster, "reassign", "generate", "t", "--to", "2,3", "--json")))
    assert [row["replicas"] for row in plans["current"]["partitions"]] == [[3, 1], [3, 1], [1, 2]]
    assert all(sorted(row["replicas"]) == [2, 3] for row in plans["proposed"]["partitions"])
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 1]}]}))
    assert kafkad(cluster, "reassign", "verify", str(plan)) == ["t-0 has the replicas of the plan."]
    assert kafkad(cluster, "reassign", "execute", str(plan)) == ["t-0 has gone where the plan says."]
    cluster.wait_until(lambda: replicas(cluster, 2) == [[3, 1], [3, 1], [1, 2]], "broker 2 knows")
    assert cluster.leaders(2, "t") == [1, 3, 1]
    assert kafkad(cluster, "elect-leaders") == ["t-0 has another leader."]
    cluster.wait_until(lambda: cluster.leaders(2, "t") == [3, 3, 1], "the preferred replica leads")
    assert kafkad(cluster, "elect-leaders", "t") == ["No partition needs another leader."]
    refused = CliRunner().invoke(
        main, ["reassign", "cancel", "t-2", "--bootstrap-server", cluster.brokers[3].bootstrap]
    )
    assert (refused.exit_code, refused.stderr) == (1, "kafkad: t-2: NO_REASSIGNMENT_IN_PROGRESS\n")


@pytest.mark.timeout(600)
def test_a_broker_that_is_drained_has_no_partition(cluster: Cluster) -> None:
    cluster.produce(3, range(300))
    assert kafkad(cluster, "brokers", "drain", "1") == [f"t-{index} has left broker 1." for index in range(3)]
    cluster.wait_until(lambda: replicas(cluster, 2) == [[3, 2], [2, 3], [3, 2]], "broker 2 knows")
    cluster.wait_until(lambda: directories(cluster, 1) == set(), "its files are gone")
    assert kafkad(cluster, "brokers", "drain", "1") == ["Broker 1 has no partition."]
    cluster.brokers[1].kill()
    cluster.produce(3, range(300, 600))
    cluster.brokers[2].kill()
    cluster.wait_until(lambda: cluster.known(3) == {3}, "broker 3 knows that it is alone")
    shown = CliRunner().invoke(main, ["brokers", "list", "--bootstrap-server", cluster.brokers[3].bootstrap]).stdout
    assert [line.split() for line in shown.splitlines()[1:]] == [
        ["2", "gone", "-", "no", "0", "3", "3"],
        ["3", cluster.brokers[3].bootstrap, "-", "yes", "3", "3", "0"],
    ]
    cluster.brokers[2].start()
    refused = CliRunner().invoke(main, ["brokers", "drain", "9", "--bootstrap-server", cluster.brokers[2].bootstrap])
    assert (refused.exit_code, "there is no broker 9" in refused.stderr) == (1, True)


@pytest.mark.timeout(600)
def test_a_broker_leads_nothing_when_it_is_told_so_from_outside(cluster: Cluster) -> None:
    """And goes on: whoever asked for it stops it."""
    cluster.create(3, "alone", {0: [1]})
    cluster.wait_until(lambda: cluster.leaders(3, "alone") == [1], "broker 3 knows")
    named = cluster.brokers[1].bootstrap
    assert kafkad(cluster, "brokers", "drain", named, "--leaders-only") == ["Broker 1 leads no partition any more."]
    cluster.wait_until(lambda: cluster.leaders(3, "t") == [2, 2, 2], "others lead")
    cluster.wait_until(lambda: cluster.in_sync(3, "t") == [{2}] * 3, "it is in sync nowhere")
    assert cluster.leaders(1, "alone") == [1], "nobody else has it"
    assert cluster.brokers[1].stop() == 0
    cluster.brokers[1].start()
    cluster.wait_until(lambda: cluster.in_sync(3, "t") == [{1, 2}] * 3, "all is in sync when it was restarted")

    cluster.brokers[1].kill()
    cluster.wait_until(lambda: cluster.in_sync(3, "t") == [{2}] * 3, "broker 2 is alone")
    refused = CliRunner().invoke(
        main, ["brokers", "drain", "2", "--leaders-only", "--bootstrap-server", cluster.brokers[3].bootstrap]
    )
    assert (refused.exit_code, refused.stdout) == (1, "")
    lines = [f"kafkad: t-{index}: broker 2 leads on, as nobody else is in sync" for index in range(3)]
    assert refused.stderr.splitlines() == lines
    assert cluster.leaders(3, "t") == [2, 2, 2]


@pytest.mark.timeout(600)
def test_nodes_that_tools_of_old_write_are_carried_out_and_removed(cluster: Cluster) -> None:
    """kafka-reassign-partitions.sh and kafka-preferred-replica-election.sh with --zookeeper, as up to Kafka 2.x."""
    cluster.produce(3, range(300))
    rows = [{"topic": "t", "partition": 0, "replicas": [3, 1]}, {"topic": "t", "partition": 7, "replicas": [3]}]
    order = json.dumps({"version": 1, "partitions": rows})
    cluster.zookeeper.create("/admin/reassign_partitions", order.encode())
    cluster.wait_until(lambda: cluster.zookeeper.exists("/admin/reassign_partitions") is None, "it is carried out")
    cluster.wait_until(lambda: replicas(cluster, 2) == [[3, 1], [2, 1], [1, 2]], "it is where the node says")

    cluster.wait_until(lambda: cluster.leaders(2, "t")[0] == 1, "the leader of before leads on, as it is in the target")
    order = json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0}]})
    cluster.zookeeper.create("/admin/preferred_replica_election", order.encode())
    cluster.wait_until(lambda: cluster.leaders(2, "t")[0] == 3, "the preferred replica leads")
    assert cluster.zookeeper.exists("/admin/preferred_replica_election") is None
    assert cluster.consume(2, "g", 300) == sorted(range(300))

    # kafka-topics.sh --zookeeper --alter --partitions
    data, _ = cluster.zookeeper.get("/brokers/topics/t")
    node = json.loads(data)
    node["partitions"]["3"] = [2, 3]
    cluster.zookeeper.set("/brokers/topics/t", json.dumps(node).encode())
    cluster.wait_until(lambda: cluster.leaders(1, "t") == [3, 2, 1, 2], "the new partition is led")
    cluster.wait_until(lambda: cluster.in_sync(3, "t")[3] == {2, 3}, "and followed")
