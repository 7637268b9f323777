"""Brokers that compact logs, and how far they have come."""

from collections.abc import Sequence

from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import Kafkad
from bench.brokers.processes import eventually
from kafkad.adapters.files.checkpoint_files import read_offsets
from kafkad.core.log.recovery.checkpoints import CLEANED_OFFSETS
from kafkad.core.types import TopicPartition

_CLEANER = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "100",
}


def cleaned(broker: RunningBroker, topic: str) -> int:
    return read_offsets(broker.log_dir, CLEANED_OFFSETS).get(TopicPartition(topic, 0), 0)


def wait_for_compaction(broker: RunningBroker, topic: str) -> None:
    active = max(int(path.stem) for path in (broker.log_dir / f"{topic}-0").glob("*.log"))
    eventually(
        lambda: cleaned(broker, topic) >= active,
        what=f"the cleaner reaches offset {active} of {topic}",
    )


def compact(kafkad: Kafkad, topics: Sequence[str]) -> None:
    """It lives once with its cleaner, and is there without it afterwards, as before."""
    sizes = {topic: _log_bytes(kafkad, topic) for topic in topics}
    assert kafkad.stop() == 0
    before = dict(kafkad.overrides)
    kafkad.overrides |= _CLEANER
    kafkad.start()
    for topic in topics:
        wait_for_compaction(kafkad, topic)
    assert kafkad.stop() == 0
    assert {topic for topic, size in sizes.items() if _log_bytes(kafkad, topic) >= size} == set()
    kafkad.overrides = before
    kafkad.start()


def _log_bytes(broker: RunningBroker, topic: str) -> int:
    return sum(path.stat().st_size for path in (broker.log_dir / f"{topic}-0").glob("*.log"))
