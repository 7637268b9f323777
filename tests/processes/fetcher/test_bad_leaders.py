"""What a leader sends that no follower may take: its partition is left alone for a while, and nothing else is."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import pack_into, unpack_from

import pytest

from kafkad.core.metrics.catalogue import FAILED_PARTITIONS
from kafkad.core.replication.following.followed_partition import FollowedPartition
from kafkad.processes.fetcher.loop import FetcherProcess
from tests.processes.fetcher.two_brokers import NAME, TwoBrokers
from tests.processes.pieces import FETCHER, NETWORK, WORKER

BASE_OFFSET_AT, LENGTH_AT, LEADER_EPOCH_AT, CRC_AT = 0, 8, 12, 17
Spoil = Callable[[bytearray], None]


def goes_back_in_offsets(batch: bytearray) -> None:
    (offset,) = unpack_from(">q", batch, BASE_OFFSET_AT)
    pack_into(">q", batch, BASE_OFFSET_AT, offset - 2)


def skips_offsets_below_zero(batch: bytearray) -> None:
    pack_into(">q", batch, BASE_OFFSET_AT, -1)


def is_half_a_batch(batch: bytearray) -> None:
    (length,) = unpack_from(">i", batch, LENGTH_AT)
    pack_into(">i", batch, LENGTH_AT, 2 * length)


def has_a_bad_checksum(batch: bytearray) -> None:
    batch[CRC_AT] ^= 0xFF


def has_a_changed_record(batch: bytearray) -> None:
    batch[-1] ^= 0xFF


def is_of_a_newer_epoch(batch: bytearray) -> None:
    pack_into(">i", batch, LEADER_EPOCH_AT, 77)


def has_an_unknown_magic(batch: bytearray) -> None:
    batch[16] = 9


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[TwoBrokers]:
    made = TwoBrokers(tmp_path, partitions=2)
    yield made
    made.close()


def followed(fetcher: FetcherProcess, partition: int) -> FollowedPartition:
    (leader,) = fetcher._leaders.values()
    (found,) = [each for each in leader.fetcher.partitions if each.name.partition == partition]
    return found


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (goes_back_in_offsets, "OFFSET_OUT_OF_RANGE"),
        (skips_offsets_below_zero, "OFFSET_OUT_OF_RANGE"),
        (is_half_a_batch, "CORRUPT_MESSAGE"),
        (has_a_bad_checksum, "CORRUPT_MESSAGE"),
        (has_a_changed_record, "CORRUPT_MESSAGE"),
        (is_of_a_newer_epoch, "UNKNOWN_LEADER_EPOCH"),
        (has_an_unknown_magic, "CORRUPT_MESSAGE"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_records_that_can_not_be_taken_cost_their_partition_a_pause_and_no_other(
    brokers: TwoBrokers, caplog: pytest.LogCaptureFixture, spoil: Spoil, cause: str
) -> None:
    client, fetcher = brokers.leader.connect(), brokers.follower.fetcher
    brokers.write(client, 3)
    brokers.run_until_equal()
    # The leader sends what is in its file, and does not look at it.
    brokers.follower.kill(FETCHER)
    brokers.write(client, 2)
    (file,) = brokers.leader.directory(NAME).glob("*.log")
    sound = file.read_bytes()
    start = len(brokers.follower.content())
    batch = bytearray(sound[start:])
    spoil(batch)
    with file.open("r+b") as opened:
        opened.seek(start)
        opened.write(batch)
    before = brokers.follower.content()

    with caplog.at_level(logging.WARNING):
        brokers.follower.begin(FETCHER)
        fetcher = brokers.follower.fetcher
        pauses: set[int] = set()

        def is_tried_again() -> bool:
            pauses.add(followed(fetcher, 0).retry_ms if fetcher._leaders else 0)
            return len(pauses - {0}) > 3

        brokers.run(is_tried_again, "the partition is tried again and again")
        # The other one goes on meanwhile.
        for _ in range(3):
            brokers.write(client, 2, partition=1)
            brokers.run_until_equal(partition=1)
        said = [each.getMessage() for each in caplog.records if f"{NAME}-0" in each.getMessage()]
    assert len(said) == 1, "one line a cause and minute"
    assert cause in said[0]
    assert f"{NAME}-1" not in caplog.text
    assert brokers.follower.block(FETCHER)[FAILED_PARTITIONS] == 1
    assert brokers.follower.content() == before, "nothing of it is in the log"
    assert {WORKER, NETWORK, FETCHER} <= brokers.follower.incarnations.keys()

    with file.open("r+b") as opened:
        opened.seek(start)
        opened.write(sound[start:])
    brokers.run_until_equal()
    brokers.run(lambda: brokers.follower.block(FETCHER)[FAILED_PARTITIONS] == 0, "it is fetched again")
