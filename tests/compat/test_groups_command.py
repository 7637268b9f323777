"""`kafkad groups` beside kafka-consumer-groups, both on the same broker: the same tables, the same effects."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import WITHIN_S
from tests.compat.group_members import Member, produce
from tests.tools.tool_server import ToolServer

NewTopic = Callable[[str], str]


class BothCommands:
    """Ours and Kafka's, against one broker."""

    def __init__(self, broker: RunningBroker, server: ToolServer) -> None:
        self.broker = broker
        self.bootstrap = broker.bootstrap
        self._server = server

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        command = [sys.executable, "-m", "kafkad", "groups", *arguments, "--bootstrap-server", self.bootstrap]
        return subprocess.run(command, capture_output=True, timeout=WITHIN_S)

    def ours(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ours(*arguments, "--json"))

    def theirs(self, *arguments: str, tool: str = "kafka-consumer-groups") -> str:
        done = self._server.run(tool, "--bootstrap-server", self.bootstrap, *arguments)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def refusal(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 1
        assert done.stdout == b""
        (line,) = done.stderr.decode().splitlines()
        return line

    def create(self, topic: str) -> str:
        """Two partitions, four records in the first."""
        args = ("--bootstrap-server", self.bootstrap, "--create", "--topic", topic, "--partitions", "2")
        done = self._server.run("kafka-topics", *args)
        assert done.returncode == 0, done.stderr.decode()
        produce(self.bootstrap, topic, b"a", b"b", b"c", b"d")
        return topic


@pytest.fixture(scope="module")
def server() -> Iterator[ToolServer]:
    with ToolServer() as server:
        yield server


@pytest.fixture(params=["kafkad", "apache"])
def groups(request: pytest.FixtureRequest, server: ToolServer) -> BothCommands:
    broker: RunningBroker = request.getfixturevalue(f"{request.param}_broker")
    return BothCommands(broker, server)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_with_and_without_members_is_described_alike(
    groups: BothCommands, new_topic: NewTopic, protocol: str
) -> None:
    topic = groups.create(new_topic("described"))
    group = f"{topic}-readers"
    produce(groups.bootstrap, topic, b"e")
    with Member(groups.bootstrap, group, topic, protocol=protocol) as member:
        assert member.read(3) == [b"a", b"b", b"c"]
        described = groups.ours("describe", group)
        for flag in ("--members", "--state"):
            assert groups.ours("describe", group, flag) == groups.theirs("--describe", "--group", group, flag)
        assert described == groups.theirs("--describe", "--group", group)
    (row,) = (line.split() for line in described.splitlines() if line.split()[2:3] == ["0"])
    assert row[:6] == [group, topic, "0", "3", "5", "2"]
    for flag in ("--members", "--state"):
        assert groups.ours("describe", group, flag) == groups.theirs("--describe", "--group", group, flag)
    assert groups.ours("describe", group) == groups.theirs("--describe", "--group", group)


def test_every_group_is_listed(groups: BothCommands, new_topic: NewTopic) -> None:
    topic = groups.create(new_topic("listed"))
    for name in ("a", "b"):
        groups.ours("reset-offsets", f"{topic}-{name}", "--topic", topic, "--to-latest", "--execute")
    listed = groups.ours("list").splitlines()
    every = groups.theirs("--list", tool="kafka-groups").splitlines()[1:]
    assert listed == sorted(row.split()[0] for row in every)
    # Kafka's other tool leaves out groups that are not of consumers: those of Connect, say.
    consumers = groups.theirs("--list", "--type", "--state").splitlines()
    assert f"{topic}-a" in {row.split()[0] for row in consumers}
    names = {row.split()[0] for row in consumers}
    ours = [row.split() for row in groups.ours("list", "--state").splitlines()]
    assert sorted(row for row in ours if row[0] in names) == sorted(row.split() for row in consumers)
    assert f"{topic}-a" in groups.json("list")


def test_reset_shows_first_and_moves_when_told_to(groups: BothCommands, new_topic: NewTopic) -> None:
    topic = groups.create(new_topic("reset"))
    group = f"{topic}-readers"

    def offset() -> Any:
        (described,) = groups.json("describe", group)
        return next(row["current_offset"] for row in described["offsets"] if row["partition"] == 0)

    shown = groups.ours("reset-offsets", group, "--topic", topic, "--to-latest")
    theirs = groups.theirs("--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--dry-run")
    assert shown.splitlines()[:2] == theirs.splitlines()[:2]
    assert shown.splitlines()[2:] == sorted(theirs.splitlines()[2:])
    assert group not in groups.json("list")
    groups.ours("reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    assert offset() == 4
    groups.ours("reset-offsets", group, "--topic", f"{topic}:0", "--shift-by", "-3", "--execute")
    assert offset() == 1
    groups.ours("reset-offsets", group, "--all-topics", "--to-offset", "2", "--execute")
    assert offset() == 2
    groups.ours("reset-offsets", group, "--all-topics", "--to-datetime", "2020-01-01T00:00:00.000", "--execute")
    assert offset() == 0
    groups.ours("reset-offsets", group, "--all-topics", "--to-datetime", "2099-01-01T00:00:00.000", "--execute")
    assert offset() == 4
    groups.ours("reset-offsets", group, "--all-topics", "--to-earliest", "--execute")
    assert offset() == 0
    done = groups.run("reset-offsets", group, "--topic", f"{topic}:0", "--shift-by", "100", "--execute")
    assert done.stderr.decode() == f"kafkad: {topic}-0 has no offset 100: using 4\n"
    assert offset() == 4


def test_offsets_are_deleted_alike(groups: BothCommands, new_topic: NewTopic) -> None:
    topic = groups.create(new_topic("forgotten"))
    group = f"{topic}-readers"
    printed = []
    for run, verb in (
        (groups.ours, ("delete-offsets", group)),
        (groups.theirs, ("--delete-offsets", "--group", group)),
    ):
        groups.ours("reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
        printed.append(run(*verb, "--topic", f"{topic}:1"))
        (described,) = groups.json("describe", group)
        assert [row["partition"] for row in described["offsets"]] == [0]
    assert printed[0] == printed[1]
    assert groups.json("delete-offsets", group, "--topic", topic)["deleted"] == [
        {"topic": topic, "partition": 0},
        {"topic": topic, "partition": 1},
    ]
    refusal = groups.refusal("delete-offsets", f"{group}-none", "--topic", topic)
    assert refusal == f"kafkad: no offset of group '{group}-none' was deleted: GROUP_ID_NOT_FOUND"
    with Member(groups.bootstrap, group, topic):
        refusal = groups.refusal("delete-offsets", group, "--topic", f"{topic}:0")
        assert refusal == f"kafkad: the offset in {topic}-0 was not deleted: GROUP_SUBSCRIBED_TO_TOPIC"


def test_group_with_members_is_neither_reset_nor_deleted(groups: BothCommands, new_topic: NewTopic) -> None:
    topic = groups.create(new_topic("busy"))
    group = f"{topic}-readers"
    with Member(groups.bootstrap, group, topic):
        refusal = groups.refusal("reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
        assert refusal == f"kafkad: group '{group}' has members (state Stable): stop them first"
        assert groups.refusal("delete", group) == f"kafkad: group '{group}' was not deleted: NON_EMPTY_GROUP"
    assert groups.ours("delete", group) == f"Deleted group {group}.\n"
    assert groups.refusal("delete", group) == f"kafkad: group '{group}' was not deleted: GROUP_ID_NOT_FOUND"
    assert groups.json("delete", group, "--if-exists") == {"group": group, "deleted": False}
    assert groups.refusal("describe", group) == f"kafkad: group '{group}' does not exist"
