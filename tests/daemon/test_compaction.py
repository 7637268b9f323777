"""A real broker compacts the logs of its topics, while clients read and write them.

It needs real processes: a cleaner writes and a worker swaps files that network processes send to real clients.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.brokers.processes import WITHIN_S, eventually
from kafkad.adapters.files.checkpoint_files import read_offsets
from kafkad.cli import main
from kafkad.core.log.recovery.checkpoints import CLEANED_OFFSETS
from kafkad.core.types import TopicPartition as Partition
from tests.daemon.served import Served
from tests.tools.names import name_of

KEYS = 40
SETTINGS = {
    "log.cleaner.backoff.ms": "50",
    "log.initial.task.delay.ms": "0",
    "log.segment.delete.delay.ms": "50",
    "replica.high.watermark.checkpoint.interval.ms": "100",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all of them; each has a topic of its own."""
    with Served(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return name_of(request)


def create(served: Served, name: str, **changes: str) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{served.broker.port}"})
    topic = NewTopic(name, num_partitions=1, replication_factor=1, config=COMPACTED | changes)
    admin.create_topics([topic])[name].result(WITHIN_S)


def configure(served: Served, topic: str, name: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{served.broker.port}"})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(WITHIN_S)


def producer(served: Served, **settings: str | int) -> Producer:
    return Producer({"bootstrap.servers": f"127.0.0.1:{served.broker.port}", "linger.ms": 5, **settings})


def write(writer: Producer, topic: str, count: int, seed: int) -> dict[bytes, bytes | None]:
    """The last value of each key."""
    random = Random(seed)
    last: dict[bytes, bytes | None] = {}
    for number in range(count):
        key = b"key-%d" % random.randrange(KEYS)
        value = b"%d-%d-" % (seed, number) + random.randbytes(600)
        writer.produce(topic, key=key, value=value)
        last[key] = value
        if number % 500 == 0:
            writer.poll(0)
    assert writer.flush(WITHIN_S) == 0
    return last


def read_all(served: Served, topic: str, isolation: str = "read_committed") -> list[Message]:
    """Everything from the first record to what is the end now."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{served.broker.port}",
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Message] = []
        while True:
            message = consumer.poll(WITHIN_S)
            assert message is not None, "the broker sends nothing"
            error = message.error()
            if error is not None:
                assert error.name() == "_PARTITION_EOF", error
                return found
            found.append(message)
    finally:
        consumer.close()


def compactions(served: Served, topic: str) -> int:
    return len(served.lines(f"{topic}-0 was compacted"))


def values(messages: list[Message]) -> dict[bytes, bytes | None]:
    return {message.key() or b"": message.value() for message in messages}


def offsets_of(messages: list[Message]) -> list[int]:
    return [message.offset() or 0 for message in messages]


def segment_files(served: Served, topic: str) -> list[str]:
    return [path.name for path in (served.broker.log_dir / f"{topic}-0").iterdir()]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_of_each_key_the_last_value_stays(served: Served, topic: str, codec: str) -> None:
    create(served, topic)
    writer = producer(served, **{"compression.type": codec})
    last = write(writer, topic, 6000, 1)
    eventually(lambda: compactions(served, topic) >= 1, what="the log is compacted")
    # What lies behind the begin of the active segment is not compacted.
    eventually(lambda: len(read_all(served, topic)) < 2500, what="all but the end is compacted")
    messages = read_all(served, topic)
    assert values(messages) == last
    offsets = offsets_of(messages)
    assert offsets == sorted(set(offsets)) and offsets[-1] == 5999
    eventually(
        lambda: not [name for name in segment_files(served, topic) if name.endswith((".deleted", ".swap", ".cleaned"))],
        what="replaced files are removed",
    )
    eventually(
        lambda: read_offsets(served.broker.log_dir, CLEANED_OFFSETS).get(Partition(topic, 0), 0) > 3000,
        what="the cleaned offset is written down",
    )


def test_a_log_is_compacted_once_its_records_are_old_enough(served: Served, topic: str) -> None:
    """Nobody writes meanwhile, and the next round of retention is minutes away."""
    create(served, topic, **{"min.compaction.lag.ms": "4000"})
    write(producer(served), topic, 6000, 1)
    active = max(int(name.removesuffix(".log")) for name in segment_files(served, topic) if name.endswith(".log"))
    eventually(
        lambda: read_offsets(served.broker.log_dir, CLEANED_OFFSETS).get(Partition(topic, 0), 0) == active,
        what="all but the active segment is compacted",
    )


def test_consumers_read_on_through_many_swaps(served: Served, topic: str) -> None:
    create(served, topic)
    writer = producer(served)
    last: dict[bytes, bytes | None] = {}
    seed = 0
    while compactions(served, topic) < 5:
        seed += 1
        last |= write(writer, topic, 2500, seed)
        messages = read_all(served, topic, "read_uncommitted" if seed % 2 else "read_committed")
        assert values(messages) == last
        offsets = offsets_of(messages)
        assert offsets == sorted(set(offsets))
        assert seed < 200, served.broker.tail()
    assert not served.lines("can't read")
    assert not served.lines("Traceback")


def test_aborted_records_are_seen_by_nobody_after_a_compaction(served: Served, topic: str) -> None:
    create(served, topic)
    writer = producer(served, **{"transactional.id": "writer"})
    writer.init_transactions(WITHIN_S)
    last: dict[bytes, bytes | None] = {}
    for seed in range(6):
        writer.begin_transaction()
        found = write(writer, topic, 1200, seed)
        if seed % 2:
            writer.abort_transaction(WITHIN_S)
        else:
            writer.commit_transaction(WITHIN_S)
            last |= found
    eventually(lambda: compactions(served, topic) >= 1, what="the log is compacted")
    assert values(read_all(served, topic)) == last


def test_a_restart_goes_on_where_the_last_compaction_ended(served: Served, topic: str) -> None:
    create(served, topic)
    last = write(producer(served), topic, 4000, 1)
    eventually(lambda: compactions(served, topic) >= 1, what="the log is compacted")
    before = [(message.offset(), message.key(), message.value()) for message in read_all(served, topic)]
    assert served.broker.stop() == 0
    served.broker.start()
    after = [(message.offset(), message.key(), message.value()) for message in read_all(served, topic)]
    # Another compaction may have ended meanwhile: it removes records, and changes none.
    assert set(after) <= set(before)
    assert {key: value for _, key, value in after} == last


def test_a_topic_that_gets_the_policy_later_loses_records_without_a_key(served: Served, topic: str) -> None:
    create(served, topic, **{"cleanup.policy": "delete"})
    writer = producer(served)
    writer.produce(topic, value=b"without a key")
    last = write(writer, topic, 4000, 1)
    assert read_all(served, topic)[0].key() is None
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{served.broker.port}"})

    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(WITHIN_S)
    eventually(lambda: compactions(served, topic) >= 1, what="the log is compacted")
    assert values(read_all(served, topic)) == last


def test_a_damaged_log_costs_its_own_compaction_only_and_is_tried_again_after_a_change(
    served: Served, topic: str
) -> None:
    create(served, "damaged", **{"cleanup.policy": "delete"})
    create(served, topic)
    write(producer(served), "damaged", 3000, 1)
    path = served.broker.log_dir / "damaged-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    with path.open("r+b") as file:
        file.write(content)
    configure(served, "damaged", "cleanup.policy", "compact")
    line = served.one_line("cannot compact damaged-0")
    assert "00000000000000000000.log, byte " in line
    last = write(producer(served), topic, 3000, 1)
    eventually(lambda: compactions(served, topic) >= 1, what="the other log is compacted")
    assert values(read_all(served, topic)) == last
    name = "kafka_log_logcleanermanager_uncleanable_partitions_count"
    assert served.metric(name) == 1
    assert served.metric("kafka_log_logcleanermanager_uncleanable_bytes") > 500_000
    assert served.metric("kafka_log_logcleanermanager_time_since_last_run_ms") < 60_000 * WITHIN_S
    assert served.metric("kafka_log_logcleaner_deadthreadcount") == 0
    (told,) = status(served, "damaged")
    assert told["state"] == "quarantined" and "00000000000000000000.log, byte " in told["failure"]
    assert told["retry_ms"] > 0 and told["last"] is None
    (other,) = status(served, topic)
    assert other["last"]["cleaned_offset"] > 0 and other["failure"] is None
    content[len(content) // 2] ^= 1
    with path.open("r+b") as file:
        file.write(content)
    arguments = ["retry", "damaged", "--bootstrap-server", f"127.0.0.1:{served.broker.port}"]
    assert CliRunner().invoke(main, ["cleaner", *arguments]).exit_code == 0
    eventually(lambda: compactions(served, "damaged") >= 1, what="it is compacted now")
    assert [line.rpartition(" ")[2] for line in served.metric_lines(name + "{")] == ["0.0"]
    assert len(served.lines("cannot compact damaged-0")) == 1
    (told,) = status(served, "damaged")
    assert told["failure"] is None and told["last"]["records_written"] < told["last"]["records_read"]


def status(served: Served, topic: str) -> list[dict[str, Any]]:
    """What `kafkad cleaner status` says."""
    listener = f"127.0.0.1:{served.metrics_port}"
    outcome = CliRunner().invoke(main, ["cleaner", "status", topic, "--json", "--metrics-listener", listener])
    assert outcome.exit_code == 0, outcome.output
    rows: list[dict[str, Any]] = json.loads(outcome.output)
    return rows
