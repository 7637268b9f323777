"""A log is cut when no reader uses what goes; until then the slot says already where it ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from kafkad.core.controller.deltas import PartitionsChanged
from kafkad.core.log.segments.layout import LOG, PRODUCER_SNAPSHOT, file_name
from kafkad.core.partition_slot import ROLE_LEADER, STATE_OFFLINE
from kafkad.wire.processes.controller_messages import LogsMoved
from tests.processes.fetcher.slow_reader import reply_across_a_truncation
from tests.processes.fetcher.two_brokers import NAME, Broker, TwoBrokers
from tests.processes.pieces import FETCHER, NETWORK, WORKER, Client
from tests.tools.raw_requests import fetch

_MAGIC_AT = 16


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[TwoBrokers]:
    made = TwoBrokers(tmp_path)
    yield made
    made.close()


def _diverged(brokers: TwoBrokers) -> Broker:
    """Broker 1 has five records of epoch 0, broker 2 leads with one of them and two of epoch 1."""
    client = brokers.leader.connect()
    brokers.write(client)
    brokers.run_until_equal()
    return _parted(brokers, client)


def _parted(brokers: TwoBrokers, client: Client) -> Broker:
    brokers.follower.kill(FETCHER)
    brokers.write(client, 4)
    brokers.lead(1, 1)
    brokers.write(brokers.leader.connect(), 2)
    brokers.leader.begin(FETCHER)
    return brokers.brokers[0]


def _announced(brokers: TwoBrokers, old: Broker) -> bool:
    """The network process of the old leader stands still within a pass."""
    old.turn(WORKER, FETCHER)
    brokers.leader.turn()
    return old.published(NAME).leo_offset == 1


def test_a_follower_that_cannot_cut_a_damaged_log_loses_that_partition_and_not_its_worker(
    brokers: TwoBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """Its producers would have to be learnt from the damaged segment, as their snapshot is gone, too."""
    first = brokers.leader
    client = first.connect()
    brokers.write(client)
    brokers.run_until_equal()
    log = first.log()
    log.roll(log.log_end_offset, 0)
    first.worker.outbox.touched(first.worker.partitions.by_slot[first.slot(NAME)])
    (snapshot,) = first.directory(NAME).glob(f"*{PRODUCER_SNAPSHOT}")
    snapshot.unlink()
    with (first.directory(NAME) / file_name(0, LOG)).open("r+b") as file:
        file.seek(_MAGIC_AT)
        file.write(b"\x07")
    old = _parted(brokers, client)
    brokers.run(lambda: old.published(NAME).state == STATE_OFFLINE, "the partition is offline")
    assert sum("its log is damaged" in record.getMessage() for record in caplog.records) == 1


def test_a_reader_within_its_pass_holds_the_cut_up_and_sees_the_new_end(brokers: TwoBrokers) -> None:
    old = _diverged(brokers)
    old.enter_pass()
    brokers.leader.run(lambda: _announced(brokers, old), "the slot has the new end")
    generation = old.published(NAME).generation
    old.turn(WORKER, FETCHER)
    assert old.log().log_end_offset == 5, "nothing is cut while a reader may use it"
    assert old.published(NAME).hw_offset <= 1
    old.registry.leave_pass(old.registry.slot(NETWORK))
    brokers.run_until_equal()
    assert old.published(NAME).generation > generation


def test_the_controller_hears_of_a_cut_below_what_was_on_disk(brokers: TwoBrokers) -> None:
    """The checkpoint of before would hide damage of what is appended there now."""
    old = _diverged(brokers)
    old.log().flush()
    brokers.run_until_equal()
    old.run(lambda: old.published(NAME).leo_offset == 3, "the slot has the new end")
    assert old.published(NAME).recovery_point <= 1
    old.run(lambda: LogsMoved(lowered=True) in old.heard, "the controller is told")


def test_a_replica_that_leads_again_before_the_cut_shows_all_it_has(brokers: TwoBrokers) -> None:
    """From its first moment as leader: its next record goes behind those that were to be cut."""
    old = _diverged(brokers)
    old.enter_pass()
    brokers.leader.run(lambda: _announced(brokers, old), "the slot has the new end")
    rows = tuple(structs.replace(row, leader_epoch=2) for row in brokers.topic.partitions)
    old.publish(PartitionsChanged(NAME, rows), to=(WORKER,))
    old.run_until_known(WORKER)
    published = old.published(NAME)
    assert (published.role, published.leo_offset) == (ROLE_LEADER, 5)
    old.registry.leave_pass(old.registry.slot(NETWORK))


def test_a_reply_that_is_leaving_when_its_log_is_cut_ends_with_its_connection(brokers: TwoBrokers) -> None:
    """The file gets other records where those of the reply were: `sendfile` would go on with them."""
    before, got = reply_across_a_truncation(brokers)
    assert len(got) < len(before), "a reply that ends early is used by nobody"


def test_a_reply_made_after_the_cut_is_whole(brokers: TwoBrokers) -> None:
    old = _diverged(brokers)
    brokers.run_until_equal()
    brokers.lead(0, 2)
    client = brokers.leader.connect()
    client.send(fetch({(NAME, 0): 0}))
    assert old.content() in client.reply()
