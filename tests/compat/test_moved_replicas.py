"""Replicas that move to another log directory: what Apache Kafka answers, and what its tools do."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_partition_reassignments.v1.response import AlterPartitionReassignmentsResponse
from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v4.response import DescribeLogDirsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from bench.brokers.apache import ApacheKafka
from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually
from kafkad.client.connection import BrokerConnection
from tests.compat.command_clients import kcat_consume, kcat_produce
from tests.compat.side_by_side import Tools
from tests.compat.transaction_sides import BrokerSide
from tests.handlers.kio_calls import KioApi
from tests.tools.tool_server import ToolServer

Places = dict[tuple[str, int], list[tuple[str, bool]]]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningBroker, RunningBroker]]:
    folder = tmp_path_factory.mktemp("moved")

    def dirs(name: str) -> dict[str, str]:
        return {"log.dirs": f"{folder / name / 'one'},{folder / name / 'two'}"}

    ours, theirs = Kafkad(folder / "kafkad", dirs("kafkad")), ApacheKafka(folder / "apache", dirs("apache"))
    with ours, theirs:
        yield ours, theirs


@pytest.fixture(scope="module")
def tools(brokers: tuple[RunningBroker, RunningBroker]) -> Iterator[Tools]:
    with ToolServer() as server:
        yield Tools(server, *brokers)


def path(broker: RunningBroker, name: str) -> str:
    return str(broker.folder / name)


def alter(broker: RunningBroker, version: int, *wanted: tuple[str, str, int]) -> list[tuple[str, int, str]]:
    """The code of each partition."""
    api = KioApi("alter_replica_log_dirs", version)
    dirs = tuple(
        api.part(
            "AlterReplicaLogDir",
            path=where,
            topics=(api.part("AlterReplicaLogDirTopic", name=topic, partitions=(index,)),),
        )
        for where, topic, index in wanted
    )
    response = BrokerSide(broker.port).ask("alter_replica_log_dirs", version, dirs=dirs)
    return sorted(
        (topic.topic_name, row.partition_index, row.error_code.name)
        for topic in response.results
        for row in topic.partitions
    )


def places(broker: RunningBroker) -> Places:
    """The directories of each partition, by their names, and whether it is on its way there."""
    connection = BrokerConnection("127.0.0.1", broker.port, WITHIN_S)
    response = connection.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    connection.close()
    found: Places = {}
    for row in response.results:
        for topic in row.topics:
            for each in topic.partitions:
                rows = found.setdefault((topic.name, each.partition_index), [])
                rows.append((Path(row.log_dir).name, each.is_future_key))
    return found


def are_there(broker: RunningBroker, names: list[str]) -> bool:
    found = places(broker)
    return all((name, 0) in found for name in names)


def is_in(broker: RunningBroker, topic: str, directory: str) -> bool:
    return places(broker)[topic, 0] == [(directory, False)]


def other(broker: RunningBroker, topic: str, index: int = 0) -> str:
    """The name of the directory in which the partition is not."""
    ((here, _),) = places(broker)[topic, index]
    return "two" if here == "one" else "one"


@pytest.mark.parametrize("version", [1, 2])
def test_the_same_requests_get_the_same_answers(tools: Tools, version: int) -> None:
    topic = tools.create(f"answers-{version}", "--partitions", "2")
    longest = "x" * 249
    if version == 1:
        tools.create(longest)
    answers = []
    for broker in tools.brokers:
        one, two = path(broker, "one"), path(broker, "two")
        answers.append(
            [
                alter(broker, version, ("/none", topic, 0)),
                alter(broker, version, ("one", topic, 0)),
                alter(broker, version, ("", topic, 0)),
                alter(broker, version, (one, topic, 7), (one, topic, -1), (two, "absent", 0)),
                alter(broker, version, (one, longest, 0)),
                alter(broker, version, (one, topic, 0), (two, topic, 0)),
                alter(broker, version, (one, "not a name", 0)),
                alter(broker, version),
            ]
        )
    assert answers[0] == answers[1]


def test_a_partition_that_is_not_there_yet_is_made_where_it_was_wanted(tools: Tools) -> None:
    found = []
    for broker in tools.brokers:
        names = [f"later-{number}" for number in range(6)]
        alter(broker, 2, *((path(broker, "two"), name, 0) for name in names))
        for name in names:
            tools.on(broker, "kafka-topics", "--create", "--topic", name)
        eventually(partial(are_there, broker, names), what="all are there")
        found.append([places(broker)[name, 0] for name in names])
    assert found[0] == found[1] == [[("two", False)]] * 6


def test_records_are_the_same_after_a_move(tools: Tools, tmp_path: Path) -> None:
    topic = tools.create("moved", "--config", "segment.bytes=1048576")
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number} {'x' * 400}\n" for number in range(20_000)))
    for broker in tools.brokers:
        kcat_produce(broker.bootstrap, topic, 0, lines, compression="none")
        target = other(broker, topic)
        assert alter(broker, 2, (path(broker, target), topic, 0)) == [(topic, 0, "none")]
        kcat_produce(broker.bootstrap, topic, 0, lines, compression="none")
        eventually(partial(is_in, broker, topic, target), what=f"{broker.name} has moved it")
        into = tmp_path / "read"
        kcat_consume(broker.bootstrap, topic, 0, 40_000, into)
        assert into.read_text() == 2 * lines.read_text()


def test_kafka_log_dirs_describes_both(tools: Tools) -> None:
    topic = tools.create("described")
    for broker in tools.brokers:
        printed = tools.on(broker, "kafka-log-dirs", "--describe", "--topic-list", topic)
        assert printed.code == 0, printed
        described = json.loads(next(line for line in printed.out.splitlines() if line.startswith("{")))
        (row,) = (each for each in described["brokers"][0]["logDirs"] if each["partitions"])
        (partition,) = row["partitions"]
        assert (partition["partition"], partition["offsetLag"], partition["isFuture"]) == (f"{topic}-0", 0, False)


def test_kafka_reassign_partitions_moves_replicas_between_directories(tools: Tools, tmp_path: Path) -> None:
    topic = tools.create("reassigned")
    printed = []
    for broker in tools.brokers:
        target = other(broker, topic)
        file = tmp_path / f"{target}.json"
        row = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [path(broker, target)]}
        file.write_text(json.dumps({"version": 1, "partitions": [row]}))
        args = ("--reassignment-json-file", str(file))
        done = tools.on(broker, "kafka-reassign-partitions", *args, "--execute")
        assert done.code == 0, done
        eventually(partial(is_in, broker, topic, target), what=f"{broker.name} has moved it")
        verified = tools.on(broker, "kafka-reassign-partitions", *args, "--verify")
        assert verified.code == 0, verified
        listed = tools.on(broker, "kafka-reassign-partitions", "--list")
        printed.append([_without_places(each.out) for each in (done, verified, listed)])
    assert printed[0] == printed[1]


def _without_places(text: str) -> str:
    """Both brokers choose the first directory on their own."""
    return re.sub(r"\S*/(one|two)\b", "DIR", text)


def test_reassignments_are_refused_alike(tools: Tools) -> None:
    topic = tools.create("kept")
    answers = []
    for broker in tools.brokers:
        connection = BrokerConnection("127.0.0.1", broker.port, WITHIN_S)
        rows: list[tuple[str, int, tuple[int, ...] | None]] = [(topic, 0, (1,)), (topic, 0, (7,)), (topic, 0, (1, 1))]
        rows += [(topic, 0, ()), (topic, 0, None)]
        rows += [(topic, 1, (1,)), (topic, -1, (1,)), ("absent", 0, (1,))]
        found = []
        for name, index, replicas in rows:
            brokers = None if replicas is None else tuple(BrokerId(each) for each in replicas)
            row = ReassignablePartition(partition_index=i32(index), replicas=brokers)
            named = ReassignableTopic(name=TopicName(name), partitions=(row,))
            request = AlterPartitionReassignmentsRequest(topics=(named,), allow_replication_factor_change=True)
            response = connection.call(request, AlterPartitionReassignmentsResponse)
            (answer,) = response.responses[0].partitions
            found.append((answer.error_code.name, answer.error_message))
        connection.close()
        answers.append(found)
    assert answers[0] == answers[1]


def cordon(broker: RunningBroker, directories: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry("cordoned.log.dirs", directories, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(WITHIN_S)


def is_refused(broker: RunningBroker, name: str) -> bool:
    return alter(broker, 2, (path(broker, name), "absent", 0))[0][2] == "invalid_replica_assignment"


def test_a_cordoned_directory_as_target(tools: Tools) -> None:
    topic = tools.create("cordoned", "--partitions", "2")
    answers = []
    for broker in tools.brokers:
        target = other(broker, topic)
        here = "one" if target == "two" else "two"
        cordon(broker, path(broker, target))
        eventually(partial(is_refused, broker, target), what="the directory is cordoned")
        rows = [(target, topic, 0), (here, topic, 0), (target, "new", 0), (here, "new", 0), (target, topic, 9)]
        rows.append((target, "x" * 249, 0))
        answers.append([alter(broker, 2, (path(broker, name), of, index)) for name, of, index in rows])
        cordon(broker, path(broker, here))
        eventually(partial(is_refused, broker, here), what="the other one is")
        # Where the partition is already.
        answers[-1].append(alter(broker, 2, (path(broker, here), topic, 0)))
        cordon(broker, "")
    assert answers[0] == answers[1]
