"""The judge of the corpus and of the kills can say no: damaged files make Kafka's DumpLogSegments complain."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.python_clients import ConfluentKafka
from tests.compat.records import AN_HOUR_AGO_MS, Record
from tests.compat.side_by_side import Tools
from tests.tools.log_dump import log_rate_limit

NewTopic = Callable[[str], str]
BASE = "0" * 20


@pytest.fixture
def segment(tools: Tools, new_topic: NewTopic, tmp_path: Path) -> Path:
    """A copy of what Apache Kafka wrote: a log and indexes with several entries."""
    _, broker = tools.brokers
    topic = tools.create(new_topic("judged"), "--config", "index.interval.bytes=1000")
    for start in range(0, 2_000, 200):
        records = [Record(b"x" * 100, timestamp=AN_HOUR_AGO_MS + start) for _ in range(200)]
        ConfluentKafka().produce(broker.bootstrap, topic, records, compression="none", idempotent=False)
    for suffix in ("log", "index", "timeindex"):
        shutil.copy(broker.log_dir / f"{topic}-0" / f"{BASE}.{suffix}", tmp_path)
    return tmp_path


def test_an_intact_segment_is_read_without_complaint(segment: Path) -> None:
    assert log_rate_limit(sorted(segment.iterdir())) == []


def test_a_flipped_bit_in_the_log_is_complained_about(segment: Path) -> None:
    log = segment / f"{BASE}.log"
    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) // 2 + 500] ^= 1
    log.write_bytes(damaged)
    assert log_rate_limit([log]) != []


def test_offsets_that_jump_are_complained_about(segment: Path) -> None:
    log = segment / f"{BASE}.log"
    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) // 2] ^= 1  # the base offset of the sixth of ten batches: no checksum covers it
    log.write_bytes(damaged)
    assert log_rate_limit([log]) != []


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_an_index_that_points_elsewhere_is_complained_about(segment: Path, suffix: str) -> None:
    index = segment / f"{BASE}.{suffix}"
    damaged = bytearray(index.read_bytes())
    damaged[7] ^= 3  # the position of the first index entry, or its timestamp
    index.write_bytes(damaged)
    assert log_rate_limit([index]) != []


def test_a_file_that_cannot_be_read_is_complained_about(segment: Path) -> None:
    assert log_rate_limit([segment / f"{BASE}.nothing"]) != []
