"""One log directory of several can't be used: the broker goes on with the others and says what is not there.

Real, as it begins with what a start finds, and each process has to know of it.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v4.response import DescribeLogDirsResponse

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually
from kafkad.cli import main
from kafkad.client.connection import BrokerConnection
from kafkad.core.errors import ErrorCode
from tests.tools import raw_requests as raw
from tests.tools.raw_requests import RawClient, batch, fetch, produce, read_fetched, read_produced

PARTITIONS = 4
STORAGE_ERROR, LEADER_NOT_AVAILABLE = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.LEADER_NOT_AVAILABLE


class TwoDirectories(Kafkad):
    """A broker with log directories `one` and `two`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.one, self.two = folder / "one", folder / "two"
        self.overrides = {"log.dirs": f"{self.one},{self.two}", "kafkad.metrics.listener": ""}

    @contextmanager
    def without_second(self) -> Iterator[None]:
        """A file is where the directory should be, until it is put back."""
        away = self.two.with_name("away")
        self.two.rename(away)
        self.two.write_text("no directory")
        yield
        self.two.unlink()
        away.rename(self.two)

    @contextmanager
    def with_second_that_can_not_be_read(self) -> Iterator[None]:
        """It is there and can be locked, but does not say whose it is."""
        own, away = self.two / "meta.properties", self.two / "away"
        own.rename(away)
        own.mkdir()
        yield
        own.rmdir()
        away.rename(own)


def _partitions_in(directory: Path, topic: str) -> set[int]:
    return {int(each.name.rpartition("-")[2]) for each in directory.glob(f"{topic}-?") if each.is_dir()}


def _errors_in_metadata(client: RawClient, topic: str) -> dict[int, int]:
    """The error of each partition, by Metadata 1."""
    body = client.ask(raw.metadata([topic]))
    at = body.index(raw.text(topic)) + 2 + len(topic) + 1
    count, at = int.from_bytes(body[at : at + 4], "big"), at + 4
    found = {}
    for _ in range(count):
        error, index = int.from_bytes(body[at : at + 2], "big"), int.from_bytes(body[at + 2 : at + 6], "big")
        found[index] = error
        at += 10
        for _list in range(2):
            at += 4 + 4 * int.from_bytes(body[at : at + 4], "big")
    return found


def _described(broker: Kafkad) -> dict[str, Any]:
    connection = BrokerConnection("127.0.0.1", broker.port, WITHIN_S)
    response = connection.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    connection.close()
    return {row.log_dir: row for row in response.results}


def _filled(broker: TwoDirectories) -> None:
    with RawClient(broker.port) as client:
        client.ask(raw.create_topic("t", PARTITIONS))
        for index in range(PARTITIONS):
            assert read_produced(client.ask(produce({("t", index): batch()})))["t", index].error == 0


@pytest.mark.parametrize("hide", [TwoDirectories.without_second, TwoDirectories.with_second_that_can_not_be_read])
def test_partitions_of_an_unusable_directory_are_offline_and_come_back_with_it(
    tmp_path: Path, hide: Callable[[TwoDirectories], AbstractContextManager[None]]
) -> None:
    broker = TwoDirectories(tmp_path)
    with broker:
        _filled(broker)
        _shows_what_is_in_them(broker)
    here, lost = _partitions_in(broker.one, "t"), _partitions_in(broker.two, "t")
    assert (len(here), len(lost)) == (2, 2)
    with hide(broker), broker:
        lines = [line for line in broker.output.read_text().splitlines() if "offline" in line]
        assert len(lines) == 1 and str(broker.two) in lines[0] and "irectory" in lines[0]
        _serves_only(broker, here, lost)
        assert [row["error"] for row in _printed(broker)] == [None, "KAFKA_STORAGE_ERROR"]
        (controller,) = _titles(broker, "controller-0")
        os.kill(controller, signal.SIGKILL)
        eventually(lambda: _titles(broker, "controller-0") - {controller}, what="it is replaced")
        _serves_only(broker, here, lost)
    with broker, RawClient(broker.port) as client:
        assert set(_errors_in_metadata(client, "t").values()) == {0}
        for index in range(PARTITIONS):
            assert read_fetched(client.ask(fetch({("t", index): 0})))["t", index].records
            assert read_produced(client.ask(produce({("t", index): batch()})))["t", index].error == 0


def _shows_what_is_in_them(broker: TwoDirectories) -> None:
    here, there = _printed(broker)
    assert (here["error"], there["error"]) == (None, None)
    assert {(row["topic"], row["partition"]) for each in (here, there) for row in each["replicas"]} == {
        ("t", index) for index in range(PARTITIONS)
    }
    assert all(row["size_bytes"] == len(batch()) for row in there["replicas"])
    assert 0 < here["free_bytes"] < here["total_bytes"]


def _serves_only(broker: TwoDirectories, here: set[int], lost: set[int]) -> None:
    with RawClient(broker.port) as client:
        wanted = {index: LEADER_NOT_AVAILABLE if index in lost else 0 for index in range(PARTITIONS)}
        assert _errors_in_metadata(client, "t") == wanted
        for index in range(PARTITIONS):
            code = STORAGE_ERROR if index in lost else 0
            assert read_produced(client.ask(produce({("t", index): batch()})))["t", index].error == code
            assert read_fetched(client.ask(fetch({("t", index): 0})))["t", index].error == code
        client.ask(raw.create_topic("new", PARTITIONS))
        assert _partitions_in(broker.one, "new") == set(range(PARTITIONS))
    rows = _described(broker)
    assert rows[str(broker.two)].error_code == STORAGE_ERROR and not rows[str(broker.two)].topics
    assert rows[str(broker.one)].error_code == 0
    sizes = {row.name: {each.partition_index for each in row.partitions} for row in rows[str(broker.one)].topics}
    assert sizes == {"t": here, "new": set(range(PARTITIONS))}


def test_topic_that_is_deleted_meanwhile_does_not_come_back(tmp_path: Path) -> None:
    broker = TwoDirectories(tmp_path)
    with broker:
        _filled(broker)
    with broker.without_second(), broker, RawClient(broker.port) as client:
        assert client.ask(raw.delete_topic("t"))[-2:] == b"\0\0"
        eventually(lambda: not _partitions_in(broker.one, "t"), what="what is here is removed")
    with broker, RawClient(broker.port) as client:
        eventually(lambda: not _partitions_in(broker.two, "t"), what="what came back is removed")
        # The deletion ends a moment after its last directory is gone.
        created = raw.create_topic("t", 1)
        eventually(lambda: b"\x00\x01t\x00\x00" in client.ask(created), what="the name is free")
        body = client.ask(fetch({("t", 0): 0}))
        assert read_fetched(body)["t", 0].high_watermark == 0


def _titles(broker: Kafkad, title: str) -> set[int]:
    return {each.pid for each in broker.tree() if each.title.endswith(title)}


def test_cordoned_directories_get_no_new_partitions_from_the_change_on(tmp_path: Path) -> None:
    broker = TwoDirectories(tmp_path)
    with broker, RawClient(broker.port) as client:
        _cordon(broker, str(broker.two))
        client.ask(raw.create_topic("here", PARTITIONS))
        assert _partitions_in(broker.one, "here") == set(range(PARTITIONS))
        _cordon(broker, "*")
        refused = client.ask(raw.create_topic("nowhere"))
        assert ErrorCode.INVALID_REPLICATION_FACTOR.to_bytes(2, "big") + b"\x00" in refused
        assert b"all log directories of this broker are cordoned" in refused
        _cordon(broker, "")
        client.ask(raw.create_topic("there", PARTITIONS))
        assert _partitions_in(broker.two, "there") == set(range(PARTITIONS)), "it had none"


def _cordon(broker: Kafkad, directories: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry("cordoned.log.dirs", directories, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(WITHIN_S)


def _printed(broker: Kafkad) -> list[dict[str, Any]]:
    arguments = ["log-dirs", "describe", "--json", "--bootstrap-server", broker.bootstrap]
    printed: list[dict[str, Any]] = json.loads(CliRunner().invoke(main, arguments, catch_exceptions=False).output)
    return printed
