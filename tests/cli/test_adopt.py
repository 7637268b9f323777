"""`kafkad adopt` on directories as Apache Kafka leaves them; that it reads a real one is in tests/compat."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.files.log_directory import CLEAN_SHUTDOWN, LogDirectory, read_meta_properties
from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.adapters.stores.store_copy import write_copy
from kafkad.cli.adoption.takeover import stored_metadata
from kafkad.cli.commands.adopt import adopt
from kafkad.core.controller.startup.repair import UNLIMITED_RETENTION
from kafkad.core.controller.startup.term import claim, ensure_paths
from kafkad.core.controller.store.stored_metadata import StoredTopic
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.log.records.batch import Codec
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.recovery.checkpoints import format_partition_metadata
from tests.core.log.old_messages import old_messages
from tests.tools.on_terminal import on_terminal

ORDERS, SALES = (UUID(bytes=bytes([number]) * 16) for number in (1, 2))
LOG = "0" * 20 + ".log"


def add_partition(log_dir: Path, name: str, topic_id: UUID, *, epoch: int = 3) -> Path:
    folder = log_dir / name
    folder.mkdir(parents=True)
    (folder / LOG).write_bytes(build_batch([NewRecord(1000, b"k", b"v")] * 2, codec=Codec.LZ4, leader_epoch=epoch))
    (folder / "partition.metadata").write_text(format_partition_metadata(topic_id))
    (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} 0\n")
    return folder


def metadata_value(kind: int, content: bytes) -> NewRecord:
    return NewRecord(1000, None, bytes([1, kind, 0]) + content + b"\0")


def compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def config(topic: str, name: str, value: str) -> NewRecord:
    return metadata_value(4, b"\2" + compact(topic) + compact(name) + compact(value))


BEGIN, END, ABORT = (metadata_value(kind, b"") for kind in (23, 24, 25))
"""Of a metadata transaction (KIP-868)."""


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two partitions of a topic that the metadata log knows, one of a topic that it does not know."""
    log_dir = tmp_path / "data"
    for partition in range(2):
        add_partition(log_dir, f"orders-{partition}", ORDERS, epoch=3 + partition)
    add_partition(log_dir, "sales-0", SALES)
    metadata = log_dir / "__cluster_metadata-0"
    metadata.mkdir()
    rows = [
        metadata_value(2, compact("orders") + ORDERS.bytes),
        *(metadata_value(3, partition.to_bytes(4, "big") + ORDERS.bytes) for partition in range(2)),
        config("orders", "retention.ms", "86400000"),
        config("orders", "remote.storage.enable", "true"),
    ]
    (metadata / LOG).write_bytes(build_batch(rows))
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=theirs\nnode.id=7\n")
    (log_dir / CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":5}')
    return log_dir


def run(*arguments: object) -> Result:
    return CliRunner().invoke(adopt, [str(argument) for argument in arguments])


def as_json(*arguments: object) -> dict[str, Any]:
    result = run("--json", *arguments)
    topics = {topic["topic"]: topic for topic in json.loads(result.stdout)["topics"]}
    return topics


def content(log_dir: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(log_dir.rglob("*")) if path.is_file()}


def test_nothing_is_changed_without_yes(log_dir: Path) -> None:
    before = content(log_dir)
    result = run(log_dir)
    assert result.exit_code == 0, result.output
    assert content(log_dir) == before
    assert "orders: 2 of 2 partition(s)" in result.stdout
    assert "4 records, magic 2, codecs lz4" in result.stdout
    assert "use the defaults in server.properties: copy the old ones (log.retention.hours" in result.stdout
    assert (
        f"Nothing was changed. To apply, add --yes. Then start a broker with log.dirs={log_dir} and broker.id=7."
        in result.stdout
    )


def test_configs_come_from_the_metadata_log_and_what_is_not_possible_is_named(log_dir: Path) -> None:
    topics = as_json(log_dir)
    assert topics["orders"]["configs"] == {"retention.ms": "86400000"}
    assert list(topics["orders"]["refused_configs"]) == ["remote.storage.enable"]
    assert topics["sales"]["source"] is None
    assert topics["sales"]["configs"] == UNLIMITED_RETENTION


def test_a_file_of_configs_comes_before_the_metadata_log(log_dir: Path, tmp_path: Path) -> None:
    printed = tmp_path / "printed.txt"
    printed.write_text(
        "Topic: sales\tTopicId: AgICAgICAgICAgICAgICAg\tPartitionCount: 3\tReplicationFactor: 1\t"
        "Configs: cleanup.policy=compact,delete,retention.ms=5\n"
        "\tTopic: sales\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    )
    topics = as_json("--configs", printed, log_dir)
    assert topics["sales"]["configs"] == {"cleanup.policy": "compact,delete", "retention.ms": "5"}
    assert topics["sales"]["problems"] == ["2 of 3 partitions are not in these directories and begin empty: 1, 2"]
    given = tmp_path / "given.json"
    given.write_text('{"orders": {"retention.ms": -1, "preallocate": false}}')
    assert as_json("--configs", given, log_dir)["orders"]["configs"] == {"preallocate": "false", "retention.ms": "-1"}


def test_a_metadata_log_that_lies_elsewhere_is_named(log_dir: Path, tmp_path: Path) -> None:
    """Of a cluster whose controllers have machines of their own, or another directory (metadata.log.dir)."""
    elsewhere = tmp_path / "controller"
    (log_dir / "__cluster_metadata-0").rename(elsewhere)
    assert as_json(log_dir)["orders"]["configs"] == UNLIMITED_RETENTION
    topic = as_json("--metadata-log", elsewhere, log_dir)["orders"]
    assert (topic["source"], topic["configs"]) == (str(elsewhere), {"retention.ms": "86400000"})


def test_what_was_set_for_all_brokers_is_named(log_dir: Path) -> None:
    """It is in no server.properties, and a broker without it would delete by the default of seven days."""
    for_all = metadata_value(4, b"\4" + compact("") + compact("log.retention.ms") + compact("-1"))
    with (log_dir / "__cluster_metadata-0" / LOG).open("ab") as file:
        file.write(build_batch([for_all], base_offset=5))
    line = "log.retention.ms=-1 is a cluster-wide dynamic config: add it to server.properties"
    assert f"{line} ({log_dir}/__cluster_metadata-0)" in run(log_dir).stdout.splitlines()
    assert json.loads(run("--json", log_dir).stdout)["broker_configs"] == {"log.retention.ms": "-1"}


def test_a_broker_finds_the_topics_with_their_configs(log_dir: Path) -> None:
    result = run("--yes", log_dir)
    assert result.exit_code == 0, result.output
    topics = stored_metadata(log_dir).topics
    assert {name: topic.configs for name, topic in topics.items()} == {
        "orders": {"retention.ms": "86400000"},
        "sales": UNLIMITED_RETENTION,
    }
    assert topics["orders"].id == ORDERS
    # Above every epoch in the log.
    assert [state.leader_epoch for state in topics["orders"].states.values()] == [4, 5]
    assert {state.leader for state in topics["orders"].states.values()} == {7}
    meta = read_meta_properties(log_dir)
    assert meta is not None and (meta.cluster_id, meta.node_id) == ("theirs", 7)
    assert (log_dir / CLEAN_SHUTDOWN).exists()


def test_it_may_be_repeated_when_more_is_known(log_dir: Path, tmp_path: Path) -> None:
    assert run("--yes", log_dir).exit_code == 0
    given = tmp_path / "given.json"
    given.write_text('{"sales": {"retention.ms": "9"}, "orders": {"retention.ms": "9"}}')
    topics = as_json("--configs", given, "--yes", log_dir)
    assert {name: topic["state"] for name, topic in topics.items()} == {"orders": "known", "sales": "taken over"}
    configs = {name: topic.configs for name, topic in stored_metadata(log_dir).topics.items()}
    assert configs == {"orders": {"retention.ms": "86400000"}, "sales": {"retention.ms": "9"}}


def test_damage_is_shown_and_is_exit_code_1(log_dir: Path) -> None:
    log = log_dir / "orders-1" / LOG
    log.write_bytes(log.read_bytes() + b"\1" * 40)
    result = run(log_dir)
    assert result.exit_code == 1
    assert f"! orders-1: {LOG}: 40 bytes from byte" in result.stdout
    assert run("--quick", log_dir).exit_code == 0


def test_messages_of_an_old_format_are_named(log_dir: Path) -> None:
    (log_dir / "sales-0" / LOG).write_bytes(old_messages(1, [b"one"]))
    result = run(log_dir)
    assert result.exit_code == 1
    assert "magic 1" in result.stdout
    assert "sales-0 has messages in a format before 0.11" in result.stdout


def test_leftovers_are_named_and_stay(log_dir: Path) -> None:
    aside = log_dir / f"gone-0.{'a' * 32}-stray"
    aside.mkdir()
    (log_dir / "sales-0" / f"{LOG}.cleaned").write_bytes(b"x")
    result = run("--yes", log_dir)
    assert f"{aside} is not changed" in result.stdout
    assert "1 file(s) of an interrupted deletion or compaction" in result.stdout
    assert aside.is_dir()


def test_a_metadata_log_with_a_snapshot_is_read_from_there_on(log_dir: Path) -> None:
    metadata = log_dir / "__cluster_metadata-0"
    rows = [
        metadata_value(2, compact("sales") + SALES.bytes),
        metadata_value(3, bytes(4) + SALES.bytes),
        config("sales", "retention.ms", "1"),
    ]
    (metadata / f"{50:020d}-{1:010d}.checkpoint").write_bytes(build_batch(rows))
    (metadata / f"{48:020d}.log").write_bytes(
        build_batch([config("sales", "retention.ms", str(at)) for at in (7, 8)], base_offset=48)
        + build_batch([config("sales", "retention.bytes", "9")], base_offset=50)
        + build_batch([BEGIN, config("sales", "retention.bytes", "10"), ABORT], base_offset=51)
        # Torn, as after a kill.
        + build_batch([config("sales", "segment.bytes", "9")], base_offset=54)[:-3]
    )
    topics = as_json(log_dir)
    assert topics["sales"]["configs"] == {"retention.bytes": "9", "retention.ms": "1"}
    assert topics["orders"]["source"] is None, "deleted before the snapshot was made"


def test_records_of_metadata_transactions_count_when_they_have_ended(log_dir: Path) -> None:
    metadata = log_dir / "__cluster_metadata-0"
    with (metadata / LOG).open("ab") as file:
        # What lies before the beginning, in the same batch, is of no transaction.
        before = config("orders", "retention.bytes", "5")
        file.write(build_batch([before, BEGIN, config("orders", "retention.ms", "6")], base_offset=5))
        removed = metadata_value(9, ORDERS.bytes)
        file.write(build_batch([removed, config("orders", "segment.ms", "7"), ABORT], base_offset=8))
        file.write(build_batch([BEGIN, metadata_value(2, compact("sales") + SALES.bytes)], base_offset=11))
    (metadata / f"{13:020d}.log").write_bytes(
        build_batch([config("sales", "retention.ms", "8"), END, BEGIN], base_offset=13)
        + build_batch([config("sales", "retention.ms", "9")], base_offset=16)
    )
    topics = as_json(log_dir)
    assert topics["orders"]["configs"] == {"retention.bytes": "5", "retention.ms": "86400000"}
    assert topics["sales"]["configs"] == {"retention.ms": "8"}


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([END], "TransactionEnded while no transaction is open"),
        ([ABORT], "TransactionAborted while no transaction is open"),
        ([BEGIN, BEGIN], "TransactionBegun while a transaction is open"),
    ],
)
def test_metadata_transactions_that_can_not_be_are_refused(log_dir: Path, records: list[NewRecord], said: str) -> None:
    with (log_dir / "__cluster_metadata-0" / LOG).open("ab") as file:
        file.write(build_batch(records, base_offset=5))
    assert said in wrong("--yes", log_dir)
    assert not (log_dir / FILE_NAME).exists()


def wrong(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def test_each_bad_input_is_one_line_and_exit_code_2(log_dir: Path, tmp_path: Path) -> None:
    before = content(log_dir)
    assert "is not a directory" in wrong(tmp_path / "nothing")
    assert "named twice" in wrong(log_dir, log_dir)
    assert "can't be read" in wrong("--configs", tmp_path / "nothing", log_dir)
    for text, said in (
        ("{", "is not JSON"),
        ('{"orders": 5}', "expected an object of configs"),
        ("hello", "neither a JSON object nor lines"),
    ):
        (tmp_path / "configs").write_text(text)
        assert said in wrong("--configs", tmp_path / "configs", "--yes", log_dir)
    assert "KRaft metadata log" in wrong("--metadata-log", tmp_path / "nothing", log_dir)
    assert content(log_dir) == before


def test_a_zookeeper_that_does_not_answer_is_one_line(log_dir: Path) -> None:
    """In a process of its own: kazoo logs what it tries."""
    command = [sys.executable, "-m", "kafkad", "adopt", "--yes", "--zookeeper", "127.0.0.1:1", str(log_dir)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("kafkad: ZooKeeper at 127.0.0.1:1 does not respond")
    assert not (log_dir / FILE_NAME).exists()


def test_a_snapshot_that_is_damaged_is_refused(log_dir: Path) -> None:
    rows = bytearray(build_batch([config("sales", "retention.ms", "1")]))
    rows[-3] ^= 1
    (log_dir / "__cluster_metadata-0" / f"{50:020d}-{1:010d}.checkpoint").write_bytes(rows)
    assert "does not match its checksum" in wrong("--yes", log_dir)
    assert not (log_dir / FILE_NAME).exists()


def test_a_partition_in_two_directories_is_refused(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    add_partition(other, "orders-0", ORDERS)
    assert "orders-0 is in 2 of the directories" in wrong("--yes", log_dir, other)
    assert not (log_dir / FILE_NAME).exists()


def test_directories_of_a_running_broker_are_refused(log_dir: Path) -> None:
    directory = LogDirectory(log_dir)
    assert f"already locked by pid {os.getpid()}" in wrong("--yes", log_dir)
    directory.close()


def test_a_terminal_sees_how_far_the_reading_is_and_stdout_is_for_scripts(log_dir: Path) -> None:
    shown = on_terminal(["adopt", "--json", str(log_dir)], within_s=120)
    assert shown.code == 0
    assert "Reading" in shown.terminal and "100%" in shown.terminal
    assert {topic["topic"] for topic in json.loads(shown.stdout)["topics"]} == {"orders", "sales"}
    assert on_terminal(["adopt", "--quick", str(log_dir)], within_s=120).terminal == "", "nothing is read"


def test_an_empty_directory_has_nothing_to_adopt(tmp_path: Path) -> None:
    result = run("--yes", tmp_path)
    assert (result.exit_code, result.stdout) == (0, "These directories have no partitions.\n")
    assert list(tmp_path.iterdir()) == []


def test_topics_of_a_store_that_was_lost_are_known_by_its_copy(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / FILE_NAME, 1)
    ensure_paths(store)
    tree = MetadataTree(store, claim(store, 1, 0))
    tree.create_topics([StoredTopic(name="a", id=UUID(int=3), assignments=((1,),), states={}, configs={"x": "y"})])
    write_copy(store, tmp_path)
    store.close()
    (tmp_path / FILE_NAME).write_bytes(b"")
    assert stored_metadata(tmp_path).topics["a"].configs == {"x": "y"}
    assert (tmp_path / FILE_NAME).read_bytes() == b"", "it has only looked"
