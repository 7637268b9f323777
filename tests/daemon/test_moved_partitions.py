"""Partitions that are moved to another log directory while clients write them: by the command, under kill -9.

Real, for the kills. Deaths before each single step are in tests/processes/worker/moving. One broker for all tests that
need no settings of their own.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually
from kafkad.cli import main
from tests.tools import raw_requests as raw
from tests.tools.on_terminal import on_terminal
from tests.tools.raw_requests import RawClient, batch, fetch, produce, read_fetched, read_produced

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
FAST = 1 << 30


class TwoDirectories(Kafkad):
    """A broker with log directories `one` and `two`."""

    def __init__(self, folder: Path, **overrides: str) -> None:
        super().__init__(folder)
        self.one, self.two = folder / "one", folder / "two"
        self.overrides = {"log.dirs": f"{self.one},{self.two}", "kafkad.metrics.listener": "", **overrides}

    def place(self, name: str) -> list[str]:
        """The log directories that have a directory of exactly this name."""
        return [each.name for each in (self.one, self.two) if (each / name).is_dir()]

    def other(self, name: str) -> Path:
        (here,) = self.place(name)
        return self.two if here == "one" else self.one

    def futures(self) -> list[str]:
        return [each.name for root in (self.one, self.two) for each in root.glob("*-future")]

    def future(self) -> Path | None:
        return next((each for root in (self.one, self.two) for each in root.glob("*-future")), None)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoDirectories]:
    with TwoDirectories(tmp_path_factory.mktemp("broker")) as running:
        yield running


def command(broker: Kafkad, *args: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["log-dirs", *args, "--bootstrap-server", broker.bootstrap])
    return done.exit_code, done.output


def write(client: RawClient, topic: str, count: int, first: int = 0, size: int = 4000) -> None:
    for number in range(first, first + count):
        answer = client.ask(produce({(topic, 0): batch(size=size + number)}))
        assert read_produced(answer)[topic, 0].error == 0


def read(client: RawClient, topic: str, end: int) -> int:
    """How many bytes of records there are up to `end`, fetch by fetch."""
    return len(records_to(client, topic, end))


def records_to(client: RawClient, topic: str, end: int) -> bytes:
    found, offset = b"", 0
    while offset < end:
        records = read_fetched(client.ask(fetch({(topic, 0): offset}))).get((topic, 0))
        assert records is not None and records.error == 0
        found += records.records
        offset = _next_offset(records.records, offset)
    return found


def _next_offset(records: bytes, offset: int) -> int:
    at = 0
    while at < len(records):
        base, size = int.from_bytes(records[at : at + 8], "big"), int.from_bytes(records[at + 8 : at + 12], "big")
        offset = base + int.from_bytes(records[at + 23 : at + 27], "big") + 1
        at += 12 + size
    return offset


def test_the_command_moves_partitions_and_says_so(broker: TwoDirectories) -> None:
    set_rate(broker, FAST)
    with RawClient(broker.port) as client:
        client.ask(raw.create_topic("t", 2))
        write(client, "t", 20)
        size = read(client, "t", 20)
        target = str(broker.other("t-0"))
        code, planned = command(broker, "move", "t-0", "--to", target, "--dry-run")
        assert code == 0 and f"t-0 goes from {broker.one if target == str(broker.two) else broker.two} to" in planned
        assert broker.other("t-0") == Path(target)
        code, done = command(broker, "move", "t", "--to", target, "--json")
        assert code == 0
        rows: list[dict[str, Any]] = json.loads(done)["moves"]
        assert [(row["partition"], row["is_done"], row["error"]) for row in rows] == [(0, True, None), (1, True, None)]
        eventually(lambda: broker.place("t-0") == [Path(target).name], what="the old one is gone")
        write(client, "t", 5, first=20)
        assert read(client, "t", 25) > size
        assert command(broker, "move", "t-0", "--to", target) == (0, f"t-0 is in {target}.\n")
        back = str(broker.other("t-0"))
        arguments = ["log-dirs", "move", "t-0", "--to", back, "--bootstrap-server", broker.bootstrap]
        shown = on_terminal(arguments, within_s=WITHIN_S)
        assert (shown.code, shown.stdout) == (0, f"t-0 is in {back}.\n")
        assert "Moving" in shown.terminal and "100%" in shown.terminal
        code, said = command(broker, "move", "t-0", "--to", "/nowhere")
        assert code == 1 and "no broker has a log directory /nowhere" in said


def test_a_slow_move_is_seen_and_can_be_ended(broker: TwoDirectories) -> None:
    set_rate(broker, 0)
    with RawClient(broker.port) as client:
        client.ask(raw.create_topic("slow", 1))
        write(client, "slow", 20)
    target, (place,) = broker.other("slow-0"), broker.place("slow-0")
    here = broker.folder / place
    assert command(broker, "move", "slow-0", "--to", str(target), "--no-wait")[0] == 0
    code, shown = command(broker, "describe", "--topic", "slow", "--json")
    rows = {row["path"]: row["replicas"] for row in json.loads(shown)}
    assert code == 0
    assert [row["is_future"] for row in rows[str(here)]] == [False]
    (future,) = rows[str(target)]
    assert (future["is_future"], future["offset_lag"], future["size_bytes"]) == (True, 20, 0)
    assert command(broker, "move", "slow-0", "--to", str(here))[0] == 0
    eventually(lambda: not broker.futures(), what="the copy is removed")
    assert broker.place("slow-0") == [here.name]


@pytest.mark.parametrize("victim", ["worker-0", "controller-0", "all"])
def test_a_move_goes_on_after_kill_9(broker: TwoDirectories, victim: str) -> None:
    set_rate(broker, 1)
    topic = f"killed-{victim}"
    with RawClient(broker.port) as client:
        client.ask(raw.create_topic(topic, 1))
        write(client, topic, 30)
        size = read(client, topic, 30)
    target = broker.other(f"{topic}-0")
    assert command(broker, "move", f"{topic}-0", "--to", str(target), "--no-wait")[0] == 0
    eventually(lambda: len(broker.futures()) == 1, what="the move has begun")
    if victim == "all":
        broker.kill()
        broker.start()
    else:
        (pid,) = [each.pid for each in broker.tree() if each.title.endswith(victim)]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: all(each.pid != pid for each in broker.tree()), what="it is reaped")
    set_rate(broker, FAST)
    eventually(lambda: broker.place(f"{topic}-0") == [target.name], what="the move ends")
    assert not broker.futures()
    with RawClient(broker.port) as client:
        write(client, topic, 1, first=30)
        assert read(client, topic, 31) > size


def test_a_move_goes_on_behind_the_segments_that_were_copied_before_kill_9(tmp_path: Path) -> None:
    with TwoDirectories(tmp_path, **{RATE: "1000000", "log.segment.bytes": str(1 << 20)}) as broker:
        with RawClient(broker.port) as client:
            client.ask(raw.create_topic("t", 1))
            write(client, "t", 40, size=120_000)
            here, target = tmp_path / broker.place("t-0")[0] / "t-0", broker.other("t-0")
            assert command(broker, "move", "t-0", "--to", str(target), "--no-wait")[0] == 0
            eventually(lambda: len(whole(here, broker.future())) >= 3, what="three are copied")
            write(client, "t", 5, first=40, size=120_000)
            written = records_to(client, "t", 45)
        broker.kill()
        before = whole(here, broker.future())
        broker.start()
        with RawClient(broker.port) as client:
            assert records_to(client, "t", 45) == written
            write(client, "t", 5, first=45)
            written = records_to(client, "t", 50)
            set_rate(broker, FAST)
            eventually(lambda: broker.place("t-0") == [target.name], what="the move ends")
            assert records_to(client, "t", 50) == written
        assert not broker.futures()
        assert len(before) >= 3
        after = {each.name: each.stat().st_ino for each in (target / "t-0").glob("*.log")}
        assert before.items() <= after.items(), "none of them was copied again"


def whole(source: Path, copy: Path | None) -> dict[str, int]:
    """The inodes of the segments that were copied as a whole."""
    if copy is None:
        return {}
    logs = {each.name: each.stat() for each in source.glob("*.log")}
    sealed = {name: logs[name] for name in sorted(logs)[:-1]}
    copied = {each.name: each.stat() for each in copy.glob("*.log") if each.name in sealed}
    return {
        name: stat.st_ino
        for name, stat in copied.items()
        if (stat.st_size, stat.st_mtime_ns) == (sealed[name].st_size, sealed[name].st_mtime_ns)
    }


def test_records_that_were_deleted_before_a_move_stay_deleted_after_kill_9(tmp_path: Path) -> None:
    hourly = dict.fromkeys(("log.flush.start.offset.checkpoint.interval.ms", "log.initial.task.delay.ms"), "3600000")
    with TwoDirectories(tmp_path, **hourly) as broker:
        with RawClient(broker.port) as client:
            client.ask(raw.create_topic("t", 1))
            write(client, "t", 10)
            client.ask(raw.delete_records("t", 0, 4))
            target = broker.other("t-0")
            assert command(broker, "move", "t-0", "--to", str(target))[0] == 0
        checkpoint = target / "log-start-offset-checkpoint"
        eventually(lambda: checkpoint.exists() and "t 0 4" in checkpoint.read_text(), what="it is written")
        broker.kill()
        broker.start()
        with RawClient(broker.port) as client:
            earliest = client.ask(raw.list_offsets("t", 0, -2))
            assert int.from_bytes(earliest[-8:], "big") == 4


def set_rate(broker: Kafkad, rate: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry(RATE, str(rate), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(WITHIN_S)
