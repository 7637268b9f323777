"""Topics of a real broker in tables: each committed record once, whatever ends the export.

Real, as a table is compared with what clients of a broker were told: transactions, retention, a topic that is made
again, a broker that is away. One broker serves all tests that do not end it.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import IO

import pyarrow as pa
import pytest
from click.testing import Result
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from deltalake import DeltaTable
from prometheus_client.parser import text_string_to_metric_families
from pyiceberg.catalog import load_catalog

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually
from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient
from kafkad.client.group_commits import commit_offsets
from kafkad.client.groups import committed_offsets
from kafkad.client.records import LATEST, offsets
from tests.daemon.lake import FORMATS, PARTITIONS, Lake, kafkad, one_line
from tests.lakehouse.export.reading.test_log_directories import partition, plain
from tests.tools.small_disk import SmallDisk

LARGE = {"max.message.bytes": "104857600", "segment.bytes": "209715200"}
SOURCES = pytest.mark.parametrize("source", ["broker", "files"])
EACH_SOURCE_AND_FORMAT = pytest.mark.parametrize(
    ("source", "table"), [("broker", "parquet"), ("files", "delta"), ("broker", "iceberg")]
)
"""What is read knows nothing of what is written: each of both once is enough."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "disk", 1 << 20) as disk:
        yield disk


def values(table: pa.Table) -> list[bytes]:
    return sorted(table.column("value").to_pylist())


@EACH_SOURCE_AND_FORMAT
def test_two_runs_bring_each_committed_record_once(lake: Lake, source: str, table: str) -> None:
    options = ("--source", source, "--format", table)
    lake.produce(3_000, **{"compression.type": "zstd"})
    lake.transactions(6)
    first = json.loads(lake.run("run", *options, "--json"))
    assert first["records"] == len(lake.sent)
    assert lake.run("run", *options) == f"nothing new in {lake.topic}\n"
    lake.produce(2_000, **{"compression.type": "lz4"})
    assert json.loads(lake.apart("run", *options, "--jobs", "2", "--json"))["records"] == 2_000
    found = lake.records("--format", table)
    assert values(found) == sorted(lake.sent)
    assert set(found.column("partition").to_pylist()) <= set(range(PARTITIONS))
    lake.run("verify", *options, "--deep")
    with BrokerClient(lake.bootstrap) as client:
        group = committed_offsets(client, f"kafkad-export-{lake.topic}")
    assert {str(partition): end for (_, partition), end in group.items()} == first["ends"] | json.loads(
        lake.run("run", *options, "--json")
    )["ends"]
    if table == "delta":
        assert values(DeltaTable(str(lake.out)).to_pyarrow_table()) == sorted(lake.sent)


@EACH_SOURCE_AND_FORMAT
def test_an_export_that_is_killed_at_any_moment_is_repeated(
    lake: Lake, source: str, table: str, tmp_path: Path
) -> None:
    """What can't be parsed is among the dead letters, which are committed first: once, too."""
    random = Random(lake.topic)
    (tmp_path / "schema.json").write_text('{"properties": {"n": {"type": "integer"}}}')
    options = ("--source", source, "--format", table, "--value", "json", "--schema-file", f"{tmp_path}/schema.json")
    for _ in range(4):
        first = len(lake.sent)
        lake.send(*(b'{"n": %d}' % each if each % 3 else b"rubbish %d" % each for each in range(first, first + 1_000)))
        running = subprocess.Popen(lake.command("run", *options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            running.wait(random.uniform(0.3, 2.5))
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.wait(WITHIN_S)
    lake.run("run", *options)
    of_table = ("--format", table)
    assert values(lake.records(*of_table)) == sorted(each for each in lake.sent if each.startswith(b"{"))
    assert values(lake.dead_letters(*of_table)) == sorted(each for each in lake.sent if each.startswith(b"r"))
    lake.run("verify", *of_table)
    for _ in range(2):
        # The first one merges files, the second one deletes what they have replaced.
        lake.run("maintain", *of_table, "--older-than", "0")
    left = {str(path) for path in lake.out.rglob("*.parquet") if "_delta_log" not in path.parts}
    assert left == set(lake.run("files", *of_table).splitlines())


@FORMATS
def test_small_files_of_a_table_are_merged(lake: Lake, table: str) -> None:
    options = ("--format", table)
    producer = Producer({"bootstrap.servers": lake.bootstrap})
    now_ms = time.time_ns() // 1_000_000
    for number in range(12):
        timestamp = now_ms - (number % 2) * 3_600_000
        producer.produce(lake.topic, value=b"%d" % number, timestamp=timestamp, partition=number % PARTITIONS)
        assert producer.flush(WITHIN_S) == 0
        lake.sent.append(b"%d" % number)
        if number % 4 == 3:
            lake.run("run", *options, "--partition-by", "hour")
    planned = json.loads(lake.run("maintain", *options, "--dry-run", "--json"))
    assert "files would be merged into" in lake.run("maintain", *options, "--dry-run")
    before = json.loads(lake.run("maintain", *options, "--json"))
    assert planned == {**before, "dry_run": True}
    files = len(lake.run("files", *options).splitlines())
    assert before["removed"] == [] and before["merged"] > before["into"] > 0
    assert files == 2 * PARTITIONS
    assert values(lake.records(*options)) == sorted(lake.sent)
    if table == "delta":
        assert values(DeltaTable(str(lake.out)).to_pyarrow_table()) == sorted(lake.sent)
    if table == "iceberg":
        catalog = load_catalog("kafkad", type="sql", uri=f"sqlite:///{lake.out}/_catalog.db")
        rows = catalog.load_table(f"kafkad.{lake.topic}").scan().to_arrow()
        assert values(rows) == sorted(lake.sent)
        assert len({time.hour for time in rows.column("timestamp").to_pylist()}) == 2
    lake.run("verify", *options)
    lake.produce(10)
    lake.run("run", *options, "--partition-by", "hour")
    lake.run("verify", *options)
    assert "files outside the table are removed" in lake.run("maintain", *options, "--older-than", "0")
    lake.run("verify", *options)


@SOURCES
def test_a_dry_run_says_how_much_it_would_be_and_changes_nothing(lake: Lake, source: str) -> None:
    lake.produce(1_000)
    assert "nothing was exported" in lake.run("run", "--dry-run", "--source", source)
    planned = json.loads(lake.run("run", "--dry-run", "--json", "--source", source))
    assert (planned["lag"], planned["tasks"], planned["files"]) == (1_000, 1, PARTITIONS)
    assert sum(map(len, lake.sent)) < planned["bytes"] < 1 << 20
    assert not lake.out.exists()


def test_the_metrics_of_a_run_are_in_a_file(lake: Lake, tmp_path: Path) -> None:
    lake.produce(10)
    page, name = tmp_path / "export.prom", 'the "lake"'
    lake.run("run", "--name", name, "--metrics-file", str(page))
    samples = [sample for family in text_string_to_metric_families(page.read_text()) for sample in family.samples]
    assert {sample.name: sample.value for sample in samples}["kafkad_export_records"] == 10
    assert {tuple(sample.labels.items()) for sample in samples} == {(("name", name), ("topic", lake.topic))}


def test_options_may_stand_in_a_file(lake: Lake, tmp_path: Path) -> None:
    lake.produce(10)
    file = tmp_path / "lake.toml"
    file.write_text(f'topic = "{lake.topic}"\nout = "{lake.out}"\nbootstrap-server = "{lake.bootstrap}"\njson = true\n')
    assert json.loads(kafkad("export", "run", "--conf-file", str(file)).stdout)["records"] == 10


def test_the_status_of_several_tables_has_the_lag_of_each(lake: Lake, tmp_path: Path) -> None:
    lake.produce(10)
    lake.run("run")
    lake.produce(5)
    files = []
    for number, (topic, out) in enumerate([(lake.topic, lake.out), (lake.topic, tmp_path / "new"), ("nowhere", "/x")]):
        files.append(tmp_path / f"{number}.toml")
        files[-1].write_text(f'topic = "{topic}"\nout = "{out}"\nbootstrap-server = "127.0.0.1:1"\n')

    def status(*options: object) -> Result:
        return kafkad("export", "status", "--bootstrap-server", lake.bootstrap, *map(str, options))

    two = status(*files[:2])
    assert [line.partition(", in ")[0] for line in two.stdout.splitlines()] == [
        f"{lake.topic} in {lake.out}: 5 behind",
        f"{lake.topic} in {tmp_path / 'new'}: 15 behind",
    ]
    assert (two.exit_code, two.stderr) == (0, "")
    three = status("--json", *files)
    assert three.exit_code == 1 and "nowhere in /x: topic 'nowhere' does not exist" in one_line(three.stderr)
    assert [row.get("lag") for row in json.loads(three.stdout)] == [5, 15, None]
    assert json.loads(status("--conf-file", files[0], "--json").stdout) == json.loads(three.stdout)[0]
    wrong = status("--conf-file", *files)
    assert (wrong.exit_code, one_line(wrong.stderr)) == (2, "kafkad: --conf-file and FILE exclude each other\n")


def test_records_that_retention_took_are_data_loss_once_the_table_has_begun(lake: Lake) -> None:
    lake.produce(300)
    lake.run("run")
    lake.produce(300)
    delete_all(lake)
    lake.produce(30)
    assert "are no longer in the log" in one_line(lake.run("run", code=1))
    asked = lake.done("status")
    assert asked.exit_code == 3 and asked.stdout.count("are lost: they were deleted before") == PARTITIONS
    table = lake.out.parent / "lake.toml"
    table.write_text(f'topic = "{lake.topic}"\nout = "{lake.out}"\nbootstrap-server = "{lake.bootstrap}"\n')
    of_all = kafkad("export", "status", str(table))
    assert of_all.exit_code == 3 and ", 300 offsets are lost; " in of_all.stdout
    lost = json.loads(lake.done("status", "--json").stdout)["lost"]
    row = json.loads(lake.run("run", "--on-data-loss", "skip", "--json"))
    assert row["records"] == 30 and sum(each["end"] - each["start"] for each in row["lost"]) == 300
    assert row["lost"] == lost and json.loads(lake.run("status", "--json"))["lost"] == []
    assert values(lake.records()) == sorted(lake.sent[:300] + lake.sent[600:])


@EACH_SOURCE_AND_FORMAT
def test_a_table_that_begins_with_the_newest_record_has_everything_since_its_first_run(
    lake: Lake, table: str, source: str
) -> None:
    options = ("--start", "latest", "--format", table, "--source", source)
    lake.produce(30)
    assert lake.run("run", *options, "--dry-run").startswith("0 offsets of ")
    assert json.loads(lake.run("run", *options, "--json"))["records"] == 0
    lake.produce(20)
    assert json.loads(lake.run("run", *options, "--json"))["records"] == 20
    admin = AdminClient({"bootstrap.servers": lake.bootstrap})
    admin.create_partitions([NewPartitions(lake.topic, PARTITIONS + 1)])[lake.topic].result(WITHIN_S)
    producer = Producer({"bootstrap.servers": lake.bootstrap})
    producer.produce(lake.topic, value=b"new partition", partition=PARTITIONS)
    assert producer.flush(WITHIN_S) == 0
    lake.run("run", *options)
    assert values(lake.records("--format", table)) == sorted([*lake.sent[30:], b"new partition"])


def test_what_retention_took_of_a_partition_that_was_empty_at_first_is_data_loss(lake: Lake) -> None:
    producer = Producer({"bootstrap.servers": lake.bootstrap})
    for number in range(3):
        producer.produce(lake.topic, value=b"%d" % number, partition=0)
    assert producer.flush(WITHIN_S) == 0
    lake.run("run")
    producer.produce(lake.topic, value=b"lost", partition=1)
    assert producer.flush(WITHIN_S) == 0
    delete_all(lake)
    assert "-1: offsets 0 to 0 are no longer in the log" in one_line(lake.run("run", code=1))


@pytest.mark.parametrize("start", ["earliest", "latest", "1"])
def test_what_retention_took_of_a_partition_that_the_topic_got_later_is_data_loss(lake: Lake, start: str) -> None:
    lake.produce(10)
    lake.run("run", "--start", start)
    admin = AdminClient({"bootstrap.servers": lake.bootstrap})
    admin.create_partitions([NewPartitions(lake.topic, PARTITIONS + 1)])[lake.topic].result(WITHIN_S)
    producer = Producer({"bootstrap.servers": lake.bootstrap})
    producer.produce(lake.topic, value=b"lost", partition=PARTITIONS)
    assert producer.flush(WITHIN_S) == 0
    delete_all(lake, [PARTITIONS])
    said = one_line(lake.run("run", "--start", start, code=1))
    assert f"-{PARTITIONS}: offsets 0 to 0 are no longer in the log" in said


@FORMATS
@pytest.mark.parametrize("free_pages", [0, 1, 3])
def test_a_full_disk_is_one_line_and_the_next_run_goes_on(
    lake: Lake, disk: SmallDisk, table: str, free_pages: int
) -> None:
    """It is full in the middle of a file, or in the commit."""
    lake.out = disk.path / "table"
    lake.produce(50)
    lake.out.mkdir()
    disk.fill(leave=4096 * free_pages)
    done = lake.done("run", "--format", table)
    if done.exit_code:
        assert str(lake.out) in one_line(done.stderr) and done.exit_code == 1
    else:
        assert free_pages == 3 and table != "iceberg"
    disk.free()
    lake.run("run", "--format", table)
    assert values(lake.records("--format", table)) == sorted(lake.sent)


def test_a_value_of_100_mb_is_exported(lake: Lake, tmp_path: Path) -> None:
    with BrokerClient(lake.bootstrap) as client:
        big = f"{lake.topic}-big"
        client.create_topic(big, partitions=1, replication_factor=1, configs=LARGE)
    producer = Producer({"bootstrap.servers": lake.bootstrap, "message.max.bytes": 104_857_600})
    for value in (b"before", bytes(100_000_000), b"behind"):
        producer.produce(big, value=value)
    assert producer.flush(WITHIN_S) == 0
    lake.topic = big
    for source in ("broker", "files"):
        lake.out = tmp_path / source
        lake.run("run", "--source", source)
        assert sorted(map(len, values(lake.records()))) == [6, 6, 100_000_000]


def test_a_pattern_finds_topics_of_the_broker(lake: Lake, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": lake.bootstrap})
    with BrokerClient(lake.bootstrap) as client:
        for number, name in enumerate(("a", "b", "ab"), 1):
            client.create_topic(f"{lake.topic}.{name}", partitions=1, replication_factor=1, configs={})
            for _ in range(number):
                producer.produce(f"{lake.topic}.{name}", b"v")
    assert producer.flush(WITHIN_S) == 0
    found = ("--topic-pattern", rf"{lake.topic}\.[ab]", "--out", f"{tmp_path}/{{topic}}")
    asked = (*found, "--bootstrap-server", lake.bootstrap)
    rows = [json.loads(line) for line in kafkad("export", "run", *asked, "--json").stdout.splitlines()]
    assert {row["topic"]: row["records"] for row in rows} == {f"{lake.topic}.a": 1, f"{lake.topic}.b": 2}
    status = kafkad("export", "status", *asked, "--json")
    assert [row["lag"] for row in json.loads(status.stdout)] == [0, 0]


def test_a_table_that_is_not_there_is_not_right(lake: Lake) -> None:
    lake.produce(1)
    assert "there is no table yet" in one_line(lake.run("verify", code=1))


def delete_all(lake: Lake, partitions: Sequence[int] = range(PARTITIONS)) -> None:
    """Delete what is in the topic now, as kafka-delete-records does."""
    admin = AdminClient({"bootstrap.servers": lake.bootstrap})
    ends = [TopicPartition(lake.topic, partition, OFFSET_END) for partition in partitions]
    for future in admin.delete_records(ends).values():
        future.result(WITHIN_S)


def test_a_topic_that_was_made_again_is_another_one(lake: Lake) -> None:
    lake.produce(20)
    lake.run("run")
    with BrokerClient(lake.bootstrap) as client:
        client.delete_topic(lake.topic)
        client.until_deadline(
            lambda: client.create_topic(
                lake.topic, partitions=PARTITIONS, replication_factor=BROKER_DEFAULT, configs={}
            )
        )
    lake.produce(30)
    assert "was deleted and created again" in one_line(lake.run("run", code=1))
    lake.run("run", "--recreated", "append")
    assert values(lake.records()) == sorted(lake.sent)
    assert "also has records of an earlier topic" in one_line(lake.run("verify", code=1))
    assert json.loads(lake.run("status", "--json"))["lag"] == 0


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--topic", "nowhere"], 1, "topic 'nowhere' does not exist"),
        (["--source", "files", "--log-dirs", "/usr"], 1, "is in no log directory on this machine (/usr)"),
        (["--bootstrap-server", "127.0.0.1:1", "--timeout", "0.1"], 1, "no broker responds at 127.0.0.1:1"),
    ],
)
def test_what_can_not_be_exported_is_one_line(lake: Lake, options: Sequence[str], code: int, said: str) -> None:
    lake.produce(5)
    assert said in one_line(lake.run("run", *options, code=code))


def test_the_directories_of_another_cluster_are_refused(lake: Lake, tmp_path: Path) -> None:
    lake.produce(5)
    for number in range(PARTITIONS):
        partition(tmp_path / "other", f"{lake.topic}-{number}", *map(plain, range(9)))
    said = lake.run("run", "--source", "files", "--log-dirs", str(tmp_path / "other"), code=1)
    assert f"{lake.topic}-0 has another topic id than the broker's topic" in one_line(said)


def test_a_damaged_batch_stops_the_export_with_its_place(lake: Lake) -> None:
    lake.produce(50)
    (log,) = [path for path in lake.log_dir.glob(f"{lake.topic}-*/*.log") if path.stat().st_size][:1]
    with log.open("r+b") as file:
        file.seek(70)
        byte = file.read(1)
        file.seek(70)
        file.write(bytes([byte[0] ^ 1]))
    said = one_line(lake.run("run", "--source", "files", code=1))
    assert "a record batch is damaged" in said and log.name in said
    assert not list(lake.out.rglob("*.json"))


def started(lake: Lake, *options: str) -> subprocess.Popen[str]:
    command = lake.command("run", *options)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def next_line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def test_a_run_begins_when_its_broker_is_there(tmp_path: Path) -> None:
    with Kafkad(tmp_path / "broker", {"num.partitions": str(PARTITIONS)}) as broker:
        lake = Lake(broker, tmp_path, "restarts")
        lake.produce(100)
        broker.kill()
        running = started(lake, "--json", "--timeout", str(WITHIN_S))
        said = next_line(running.stderr)
        assert "no broker responds" in said and f"; retrying for {WITHIN_S:g} s" in said
        broker.start()
        out, _ = running.communicate(timeout=WITHIN_S)
        assert running.returncode == 0 and json.loads(out)["records"] == 100


def test_a_run_goes_on_behind_a_restart_of_its_broker(tmp_path: Path) -> None:
    """It has others to read than the first partition."""
    with Kafkad(tmp_path / "broker", {"num.partitions": str(PARTITIONS)}) as broker:
        lake = Lake(broker, tmp_path, "restarts")
        producer = Producer({"bootstrap.servers": lake.bootstrap})
        for number in range(PARTITIONS):
            producer.produce(lake.topic, value=bytes(500_000), partition=number)
        assert producer.flush(WITHIN_S) == 0
        # A second for each partition: some are left when the broker is gone.
        running = started(lake, "--json", "--max-bytes-per-sec", "500KB", "--timeout", str(WITHIN_S))
        eventually(lambda: any(path.is_file() for path in lake.out.rglob("*")), what="the first file")
        broker.kill()
        broker.start()
        out, said = running.communicate(timeout=WITHIN_S)
        assert running.returncode == 0, said
        assert json.loads(out)["records"] == PARTITIONS
        lake.run("verify")


def test_rounds_wait_for_a_broker_that_is_away(tmp_path: Path) -> None:
    with Kafkad(tmp_path / "broker", {"num.partitions": str(PARTITIONS)}) as broker:
        lake = Lake(broker, tmp_path, "away")
        lake.produce(100)
        broker.kill()
        running = started(lake, "--every", "2s", "--json", "--timeout", "1")
        try:
            while not (said := next_line(running.stderr)).endswith("; retrying in 1 s\n"):
                assert "; retrying for 1 s" in said
            assert "no broker responds" in said
            broker.start()
            assert json.loads(next_line(running.stdout))["records"] == 100
        finally:
            running.terminate()
            running.communicate(timeout=WITHIN_S)
        assert running.returncode == 0


def test_a_broker_that_throttles_the_export_is_waited_for(tmp_path: Path) -> None:
    """Its answers name no partition meanwhile."""
    quota = {"kafkad.quota.consumer.byte.rate.default": "500000", "quota.window.num": "2"}
    with Kafkad(tmp_path / "broker", {"num.partitions": str(PARTITIONS), **quota}) as broker:
        lake = Lake(broker, tmp_path, "slow")
        producer = Producer({"bootstrap.servers": lake.bootstrap})
        for number in range(15):
            producer.produce(lake.topic, bytes(100_000), partition=number % PARTITIONS)
        assert producer.flush(WITHIN_S) == 0
        assert json.loads(lake.run("run", "--json"))["records"] == 15


def test_rounds_end_when_only_people_can_help(lake: Lake) -> None:
    lake.produce(30)
    lake.run("run")
    delete_all(lake)
    lake.produce(30)
    delete_all(lake)
    assert "are no longer in the log" in one_line(lake.run("run", "--every", "1h", code=1))


def test_the_group_of_an_export_does_not_expire_and_is_told_again(tmp_path: Path) -> None:
    settings = {"offsets.retention.check.interval.ms": "50", "num.partitions": str(PARTITIONS)}
    with Kafkad(tmp_path / "broker", settings) as broker, BrokerClient(broker.bootstrap) as client:
        lake = Lake(broker, tmp_path, "rests")
        lake.produce(30)
        ends = json.loads(lake.run("run", "--json"))["ends"]
        group = f"kafkad-export-{lake.topic}"
        told = {(lake.topic, int(partition)): end for partition, end in ends.items()}
        commit_offsets(client, group, dict.fromkeys(told, 0), retention=timedelta(milliseconds=1))
        eventually(lambda: committed_offsets(client, group) == {}, what="what was committed expires")
        assert "nothing new" in lake.run("run")
        assert committed_offsets(client, group) == told


def as_it_lies(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """Inode, size and time of the last change of all that is in it."""
    states = {path: path.stat() for path in [folder, *folder.rglob("*")]}
    return {path: (state.st_ino, state.st_size, state.st_mtime_ns) for path, state in states.items()}


def test_segment_files_are_exported_while_their_broker_is_away(tmp_path: Path) -> None:
    """It was killed, and later stopped in order."""
    settings = {"num.partitions": str(PARTITIONS), "replica.high.watermark.checkpoint.interval.ms": "50"}
    with Kafkad(tmp_path / "broker", settings) as broker:
        for end in (broker.kill, broker.stop):
            lake = Lake(broker, tmp_path, f"away-{end.__name__}")
            lake.out = tmp_path / end.__name__
            lake.produce(300)
            lake.transactions(4)
            open_one = Producer({"bootstrap.servers": lake.bootstrap, "transactional.id": "open", "log_level": 0})
            open_one.init_transactions(WITHIN_S)
            open_one.begin_transaction()
            open_one.produce(lake.topic, value=b"not yet", partition=1)
            open_one.flush(WITHIN_S)
            export_while_away(lake, broker, end)


def export_while_away(lake: Lake, broker: Kafkad, end: Callable[[], object]) -> None:
    files = ("--source", "files", "--log-dirs", str(broker.log_dir))
    first = lake.run("run", *files, "--dry-run", "--json")
    checkpoint = broker.log_dir / "replication-offset-checkpoint"
    with BrokerClient(lake.bootstrap) as client:
        ends = {f"{lake.topic} {each} {end}" for each, end in offsets(client, lake.topic, range(3), LATEST).items()}
    eventually(lambda: ends <= set(checkpoint.read_text().splitlines()), what="the checkpoint")
    end()
    left = as_it_lies(broker.log_dir)
    planned = lake.run("run", *files, "--bootstrap-server", "none", "--dry-run", "--json")
    assert {**json.loads(planned), "tasks": 0} == {**json.loads(first), "tasks": 0}
    assert "using the checkpoints in the log directories" in lake.done("run", *files).stderr
    assert values(lake.records()) == sorted(lake.sent)
    assert "nothing new" in lake.run("run", *files, "--bootstrap-server", "none")
    assert as_it_lies(broker.log_dir) == left
    broker.start()
    lake.run("verify", *files)
    assert "nothing new" in lake.run("run", *files)


def test_the_example_of_a_lakehouse_runs_with_one_command() -> None:
    example = Path(__file__).parents[2] / "examples" / "lakehouse" / "lakehouse.py"
    command = [sys.executable, str(example), "--lines", "5000", "--format", "delta"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
    assert "5,000 lines produced" in done.stdout and "nothing new in lines" in done.stdout
    assert "files with most lines" in done.stdout
