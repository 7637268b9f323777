"""flush.messages on a follower: it asks for more, which acknowledges what it has, when that is on disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from kafkad.adapters.files import segment_files
from kafkad.core.controller.deltas import PartitionsChanged, TopicConfigChanged
from kafkad.core.partition_slot import STATE_OFFLINE
from tests.processes.fetcher.two_brokers import ALL, NAME, TwoBrokers
from tests.processes.pieces import FETCHER
from tests.processes.worker.test_flush_messages import SlowDisk
from tests.simulation.disk import Trouble
from tests.tools.raw_requests import batch, produce

PASSES = 300
"""Of each broker: many times what an answer takes."""


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    disk = SlowDisk()
    monkeypatch.setattr(segment_files, "os", disk)
    yield disk
    disk.lets_through.set()


@pytest.fixture
def brokers(tmp_path: Path, disk: SlowDisk) -> Iterator[TwoBrokers]:
    """Both are in sync, so that the leader's high watermark shows what the follower acknowledges."""
    made = TwoBrokers(tmp_path)
    rows = tuple(structs.replace(row, isr=(1, 2), partition_epoch=1) for row in made.topic.partitions)
    for broker in made.brokers:
        broker.publish(PartitionsChanged(NAME, rows), to=ALL)
        broker.run_until_known()
    made.follower.publish(TopicConfigChanged(NAME, {"flush.messages": "1"}), to=ALL)
    made.follower.run_until_known()
    yield made
    disk.lets_through.set()
    made.close()


def appended(brokers: TwoBrokers, disk: SlowDisk) -> None:
    """A record is in the follower's log, and is not on disk for now."""
    disk.lets_through.clear()
    end = brokers.follower.log().log_end_offset + 1
    brokers.leader.connect().send(produce({(NAME, 0): batch()}, acks=1))
    brokers.run(lambda: brokers.follower.log().log_end_offset == end and disk.waiting, "the follower has the record")


def tick(brokers: TwoBrokers) -> None:
    for _ in range(PASSES):
        for broker in brokers.brokers:
            broker.turn()


def test_a_follower_acknowledges_what_is_on_disk(brokers: TwoBrokers, disk: SlowDisk) -> None:
    appended(brokers, disk)
    tick(brokers)
    assert brokers.leader.log().high_watermark.offset == 0
    disk.lets_through.set()
    brokers.run(lambda: brokers.leader.log().high_watermark.offset == 1, "it is committed")
    brokers.run_until_equal()


def test_the_next_fetcher_hears_of_it_when_it_is_on_disk(brokers: TwoBrokers, disk: SlowDisk) -> None:
    appended(brokers, disk)
    brokers.follower.replace(FETCHER)
    tick(brokers)
    assert brokers.leader.log().high_watermark.offset == 0
    disk.lets_through.set()
    brokers.run(lambda: brokers.leader.log().high_watermark.offset == 1, "it is committed")


def test_a_sync_that_fails_acknowledges_nothing(brokers: TwoBrokers, disk: SlowDisk) -> None:
    appended(brokers, disk)
    disk.trouble(brokers.follower.directory().parent, Trouble.UNSYNCABLE)
    disk.lets_through.set()
    slot = brokers.follower.slot(NAME, 0)
    brokers.run(
        lambda: brokers.follower.worker.partitions.by_slot[slot].state == STATE_OFFLINE, "the directory is offline"
    )
    tick(brokers)
    assert brokers.leader.log().high_watermark.offset == 0
