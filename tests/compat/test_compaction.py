"""Apache Kafka's cleaner and ours keep the same records of the same log.

Apache Kafka writes the logs while its cleaner is off. Then it compacts them, and kafkad compacts a copy, which Apache
Kafka opens at the end.
"""

import random
import shutil
from functools import partial
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.brokers.apache import ApacheKafka
from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, eventually
from kafkad.adapters.files.checkpoint_files import read_offsets
from kafkad.core.log.recovery.checkpoints import CLEANED_OFFSETS
from kafkad.core.types import TopicPartition
from tests.compat.served_logs import differences, served
from tests.core.cleaning.naive import Batch, read_batches
from tests.tools.log_dump import insane_indexes, log_rate_limit

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_TOPICS = [f"plain-{codec}" for codec in _CODECS] + ["transactions"]
_CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "index.interval.bytes": "1000",
    # So that the delete horizons, which are times of the two passes, change nothing that is read.
    "delete.retention.ms": "86400000",
}
_KEYS = 300
_SETTINGS = {"log.cleaner.backoff.ms": "50", "log.initial.task.delay.ms": "0", "log.segment.delete.delay.ms": "100"}


def _create(broker: RunningBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = [NewTopic(name, 1, 1, config=_CONFIG) for name in _TOPICS]
    for made in admin.create_topics(topics).values():
        made.result(WITHIN_S)


def _produce(producer: Producer, topic: str, count: int, drawn: random.Random) -> None:
    for number in range(count):
        value = None if drawn.random() < 0.1 else drawn.randbytes(drawn.choice((0, 30, 900, 1500)))
        headers: dict[str, str | bytes | None] = {"number": str(number)} if number % 3 == 0 else {}
        producer.produce(topic, value, b"key-%d" % drawn.randrange(_KEYS), 0, headers=headers)
        if number % 50 == 0:
            producer.flush(WITHIN_S)
    assert producer.flush(WITHIN_S) == 0


def _write(broker: RunningBroker) -> None:
    drawn = random.Random(7)
    common: dict[str, str | int] = {"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "log_level": 0}
    for codec in _CODECS:
        producer = Producer({**common, "compression.type": codec, "enable.idempotence": codec != "gzip"})
        _produce(producer, f"plain-{codec}", 5000, drawn)
    producer = Producer({**common, "transactional.id": "writer"})
    producer.init_transactions(WITHIN_S)
    for number in range(14):
        producer.begin_transaction()
        _produce(producer, "transactions", 400, drawn)
        if number % 3 == 1:
            producer.abort_transaction(WITHIN_S)
        else:
            producer.commit_transaction(WITHIN_S)


def _directory(log_dir: Path, topic: str) -> Path:
    return log_dir / f"{topic}-0"


def _active(log_dir: Path, topic: str) -> int:
    return max(int(path.stem) for path in _directory(log_dir, topic).glob("*.log"))


def _is_compacted(broker: RunningBroker, topic: str) -> bool:
    cleaned = read_offsets(broker.log_dir, CLEANED_OFFSETS) if (broker.log_dir / CLEANED_OFFSETS).exists() else {}
    return cleaned.get(TopicPartition(topic, 0), 0) >= _active(broker.log_dir, topic)


def _wait(broker: RunningBroker) -> None:
    for topic in _TOPICS:
        eventually(partial(_is_compacted, broker, topic), what=f"{broker.name} compacts {topic}")


def _content(log_dir: Path, topic: str) -> list[Batch]:
    """Without the delete horizons, whose times are those of the passes."""
    files = sorted(_directory(log_dir, topic).glob("*.log"))
    batches = [batch for path in files for batch in read_batches(path.read_bytes())]
    return [Batch(**{**vars(batch), "horizon_ms": None if batch.horizon_ms is None else 0}) for batch in batches]


def test_both_keep_the_same_records_of_the_same_logs(tmp_path: Path) -> None:
    apache = ApacheKafka(tmp_path / "theirs", {"log.cleaner.enable": "false", **_SETTINGS})
    with apache:
        _create(apache)
        _write(apache)
    copy = tmp_path / "ours" / "data"
    copy.mkdir(parents=True)
    for topic in _TOPICS:
        shutil.copytree(_directory(apache.log_dir, topic), _directory(copy, topic))
    before = {topic: len(_content(copy, topic)) for topic in _TOPICS}

    properties = tmp_path / "theirs" / "server.properties"
    properties.write_text(properties.read_text().replace("log.cleaner.enable=false", "log.cleaner.enable=true"))
    with apache.started_again():
        _wait(apache)

    with Kafkad(tmp_path / "ours", {**_SETTINGS, "replica.high.watermark.checkpoint.interval.ms": "100"}) as ours:
        assert ours.log_dir == copy
        admin = AdminClient({"bootstrap.servers": ours.bootstrap})
        assert set(_TOPICS) <= set(admin.list_topics(timeout=WITHIN_S).topics)
        _configure(ours)
        _wait(ours)
        expected = served(ours, [(topic, 0) for topic in _TOPICS])
    for topic in _TOPICS:
        theirs = _content(apache.log_dir, topic)
        assert _content(ours.log_dir, topic) == theirs, topic
        assert len(theirs) < before[topic]
        assert _log_rate_limit(ours.log_dir, topic) == _log_rate_limit(apache.log_dir, topic)
        shutil.rmtree(_directory(apache.log_dir, topic))
        shutil.copytree(_directory(ours.log_dir, topic), _directory(apache.log_dir, topic))
    properties.write_text(properties.read_text().replace("log.cleaner.enable=true", "log.cleaner.enable=false"))
    with apache.started_again():
        assert differences(apache, expected) == [], "Apache Kafka serves what kafkad has compacted as kafkad does"


def _log_rate_limit(log_dir: Path, topic: str) -> set[str]:
    """What Kafka's tool says, without the paths: an emptied batch keeps its time, which it takes for a mismatch."""
    kinds = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    found = [path for path in sorted(_directory(log_dir, topic).iterdir()) if path.suffix in kinds]
    assert insane_indexes([path for path in found if path.suffix in (".index", ".timeindex")]) == []
    lines = [line for line in log_rate_limit(found) if "is followed by" not in line]
    return {line.replace(str(log_dir), "") for line in lines}


def _configure(broker: RunningBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    changes = [
        ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in _CONFIG.items()
            ],
        )
        for topic in _TOPICS
    ]
    for done in admin.incremental_alter_configs(changes).values():
        done.result(WITHIN_S)
