"""The speed and cost of compaction, and its effect on clients.

Each broker opens copies of logs that Apache Kafka has written with `cleanup.policy=delete`. Then the policy of a small
log is changed to `compact`, as a warm-up, and the policy of the large log, which is measured until the cleaner has
reached the active segment.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench import latency
from bench.admin import make_topics, wait_until_served
from bench.brokers.broker import RunningBroker
from bench.compaction.data_sets import Content, DataSets, make_topic, put_log
from bench.figures import Figure, cost, cpu_per_gigabyte, rate
from bench.host import cpu_of_tree, pss_megabytes
from bench.scale import Scale

_SETTINGS = MappingProxyType(
    {
        "log.cleaner.backoff.ms": "50",
        "log.initial.task.delay.ms": "0",
        # kafkad writes the cleaner checkpoint together with the other checkpoints.
        "replica.high.watermark.checkpoint.interval.ms": "100",
    }
)
_MEASURED, _WARM_UP, _BESIDE = "measured", "warm-up", "beside"
_CHECKPOINT = "cleaner-offset-checkpoint"
_WITHIN_S = 900.0
_CONFIG_S = 60.0
_CHECK_INTERVAL_S = 0.02
_MEMORY_INTERVAL_S = 1.0
"""Reading the PSS of processes slows them down."""
_MESSAGES = 100
_PER_SECOND = 200


def compaction(
    make: Callable[[], RunningBroker], data_sets: DataSets, scale: Scale, row: str, *, content: Content
) -> list[Figure]:
    """The rate of compacted megabytes and records, of both passes together, without other load."""
    with _opened(make, data_sets, scale, content) as broker:
        _compact(broker, _WARM_UP)
        _wait(broker, _WARM_UP)
        segments = _sealed(broker, _MEASURED)
        sealed_bytes = sum(path.stat().st_size for path in segments)
        records = _active_base(broker, _MEASURED)
        before, started = cpu_of_tree(broker.pid), time.perf_counter()
        _compact(broker, _MEASURED)
        memory = _wait(broker, _MEASURED)
        seconds, used = time.perf_counter() - started, cpu_of_tree(broker.pid) - before
        left = sum(path.stat().st_size for path in _sealed(broker, _MEASURED))
    return [
        rate(row, "throughput", sealed_bytes / seconds / 1e6, "MB/s"),
        rate(row, "records", records / seconds / 1e6, "million/s"),
        *cpu_per_gigabyte(row, used, sealed_bytes),
        cost(row, "peak memory (PSS)", memory, "MB"),
        cost(row, "size before", sealed_bytes / 1e6, "MB"),
        cost(row, "size after", left / 1e6, "MB"),
    ]


def beside_compaction(
    make: Callable[[], RunningBroker], data_sets: DataSets, scale: Scale, row: str, *, content: Content
) -> list[Figure]:
    """End-to-end latency of messages during a compaction."""
    with _opened(make, data_sets, scale, content) as broker:
        make_topics(broker.port, {_BESIDE: 1})
        _compact(broker, _WARM_UP)
        _wait(broker, _WARM_UP)
        latency.measure(broker.port, _BESIDE, messages=_MESSAGES, per_second=_PER_SECOND, start_offset=0)
        _compact(broker, _MEASURED)
        milliseconds: list[float] = []
        sent = _MESSAGES
        while True:
            seen = latency.measure(broker.port, _BESIDE, messages=_MESSAGES, per_second=_PER_SECOND, start_offset=sent)
            sent += _MESSAGES
            milliseconds += seen.milliseconds
            if _is_compacted(broker, _MEASURED):
                break
    beside = latency.EndToEnd(milliseconds=sorted(milliseconds))
    return [
        cost(row, "p50", beside.quantile(0.5), "ms"),
        cost(row, "p99", beside.quantile(0.99), "ms"),
        cost(row, "slowest", beside.milliseconds[-1], "ms"),
    ]


@contextmanager
def _opened(
    make: Callable[[], RunningBroker], data_sets: DataSets, scale: Scale, content: Content
) -> Iterator[RunningBroker]:
    """A broker with the topics, and logs that Apache Kafka has written."""
    sizes = {_MEASURED: scale.compaction_bytes, _WARM_UP: scale.compaction_bytes // 5}
    written = data_sets.log_of(content, sizes)
    broker = make()
    broker.overrides |= _SETTINGS
    with broker:
        for name, total_bytes in sizes.items():
            make_topic(broker, name, total_bytes)
        wait_until_served(broker.port, dict.fromkeys(sizes, 1))
        broker.stop()
        for name in sizes:
            put_log(written / f"{name}-0", broker.log_dir / f"{name}-0")
        broker.start()
        wait_until_served(broker.port, dict.fromkeys(sizes, 1))
        yield broker
    shutil.rmtree(broker.folder)


def _compact(broker: RunningBroker, topic: str) -> None:
    changed = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changed.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(_CONFIG_S)


def _wait(broker: RunningBroker, topic: str) -> float:
    """Wait until the topic is compacted; returns the peak memory of the broker in megabytes."""
    deadline = time.perf_counter() + _WITHIN_S
    memory, due = 0.0, 0.0
    while not _is_compacted(broker, topic):
        now = time.perf_counter()
        if now > deadline:
            raise TimeoutError(f"{topic} is not compacted after {_WITHIN_S:.0f} s")
        if now >= due:
            memory, due = max(memory, pss_megabytes(broker.pid)), now + _MEMORY_INTERVAL_S
        time.sleep(_CHECK_INTERVAL_S)
    return max(memory, pss_megabytes(broker.pid))


def _is_compacted(broker: RunningBroker, topic: str) -> bool:
    checkpoint = broker.log_dir / _CHECKPOINT
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    cleaned = {name: int(offset) for name, _, offset in (line.split() for line in lines)}
    return cleaned.get(topic, -1) >= _active_base(broker, topic)


def _segments(broker: RunningBroker, topic: str) -> list[Path]:
    return sorted((broker.log_dir / f"{topic}-0").glob("*.log"))


def _sealed(broker: RunningBroker, topic: str) -> list[Path]:
    return _segments(broker, topic)[:-1]


def _active_base(broker: RunningBroker, topic: str) -> int:
    return int(_segments(broker, topic)[-1].stem)
