"""kafka-get-offsets, kafka-delete-records and kafka-log-dirs print on kafkad what they print on Apache Kafka."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compat.records import AN_HOUR_AGO_MS
from tests.compat.side_by_side import Tools

NewTopic = Callable[[str], str]
OFFSETS = "kafka-get-offsets"
DELETE = "kafka-delete-records"
FIRST_TIMESTAMP = AN_HOUR_AGO_MS


@pytest.fixture
def filled(tools: Tools, new_topic: NewTopic) -> str:
    """A topic with ten records in each of two partitions, a second apart; the newest is not the last."""
    topic = tools.create(new_topic("filled"), "--partitions", "2")
    for broker in tools.brokers:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "log_level": 0})
        for partition in (0, 1):
            for index in (0, 1, 2, 3, 4, 9, 5, 6, 7, 8):
                producer.produce(topic, b"v" * 100, partition=partition, timestamp=FIRST_TIMESTAMP + 1_000 * index)
                # One record a batch, so that sizes and look-ups do not depend on how the client batched.
                assert producer.flush(30) == 0
    return topic


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        pytest.param("earliest", "0", id="earliest"),
        pytest.param("latest", "10", id="latest"),
        pytest.param("max-timestamp", "5", id="max-timestamp"),
        pytest.param(str(FIRST_TIMESTAMP - 1), "0", id="before the first"),
        pytest.param(str(FIRST_TIMESTAMP + 4_500), "5", id="between two"),
        pytest.param(str(FIRST_TIMESTAMP + 9_000), "5", id="of the newest"),
        pytest.param(str(FIRST_TIMESTAMP + 9_001), "", id="behind the newest"),
    ],
)
def test_offsets_are_looked_up(tools: Tools, filled: str, time: str, expected: str) -> None:
    printed = tools.agree(OFFSETS, "--topic", filled, "--time", time)
    assert printed == "".join(f"{filled}:{partition}:{expected}\n" for partition in (0, 1) if expected)


def test_offsets_of_an_unknown_topic_are_refused_as_on_apache_kafka(tools: Tools) -> None:
    tools.agree(OFFSETS, "--topic", "nowhere", code=1)


def test_offsets_of_an_empty_topic_are_looked_up(tools: Tools, new_topic: NewTopic) -> None:
    topic = tools.create(new_topic("empty"))
    for time in ("earliest", "latest", "max-timestamp", "0"):
        tools.agree(OFFSETS, "--topic", topic, "--time", time)


def _deletion(tmp_path: Path, topic: str, **offsets: int) -> str:
    wanted = [{"topic": topic, "partition": int(name[1:]), "offset": at} for name, at in offsets.items()]
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"partitions": wanted, "version": 1}))
    return str(file)


def test_deleted_records_move_the_start_of_the_log(tools: Tools, filled: str, tmp_path: Path) -> None:
    tools.agree(DELETE, "--offset-json-file", _deletion(tmp_path, filled, p0=4, p1=-1))
    assert tools.agree(OFFSETS, "--topic", filled, "--time", "earliest") == f"{filled}:0:4\n{filled}:1:10\n"
    tools.agree(OFFSETS, "--topic", filled, "--time", str(FIRST_TIMESTAMP))


@pytest.mark.parametrize("offset", [11, 1_000])
def test_records_that_are_not_there_cannot_be_deleted(tools: Tools, filled: str, tmp_path: Path, offset: int) -> None:
    ours, theirs = tools.both(DELETE, "--offset-json-file", _deletion(tmp_path, filled, p0=offset))
    assert ours == theirs
    assert "OffsetOutOfRangeException" in ours.out


def test_log_dirs_show_each_partition_with_its_size(tools: Tools, filled: str) -> None:
    ours, theirs = tools.both("kafka-log-dirs", "--describe", "--topic-list", filled)
    assert ours.code == theirs.code == 0
    assert ours.out.splitlines()[:-1] == theirs.out.splitlines()[:-1]
    assert _directories(ours.out) == _directories(theirs.out)


def _directories(printed: str) -> list[dict[str, object]]:
    (broker,) = json.loads(printed.splitlines()[-1])["brokers"]
    return [
        {**directory, "partitions": sorted(directory["partitions"], key=lambda entry: entry["partition"])}
        for directory in broker["logDirs"]
    ]
