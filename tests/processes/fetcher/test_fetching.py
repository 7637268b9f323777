"""A follower has what its leader has: through deaths of processes on both sides, and changes of leaders."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from kafkad.adapters.links.supervision_channel import Reload
from kafkad.client.throttles import RATES
from kafkad.core.controller.deltas import BrokerConfigChanged, PartitionsChanged, TopicConfigChanged
from kafkad.core.metrics.catalogue import (
    FAILED_PARTITIONS,
    FETCHER_BYTES,
    FETCHER_LEADERS,
    FETCHER_REQUESTS,
    THROTTLED,
    THROTTLED_FOLLOWER_BYTES,
    THROTTLED_LEADER_BYTES,
)
from kafkad.core.quotas.replication_quota import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    NO_LIMIT,
)
from kafkad.plugins.replication_quota import ThrottledRate
from tests.processes.fetcher.two_brokers import NAME, TwoBrokers
from tests.processes.pieces import FETCHER, NETWORK, WORKER
from tests.tools.raw_requests import batch, delete_records, produce, read_produced

LEADER_RATE, FOLLOWER_RATE = RATES


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[TwoBrokers]:
    made = TwoBrokers(tmp_path, partitions=2)
    yield made
    made.close()


def test_records_of_the_leader_come_into_the_followers_log(brokers: TwoBrokers) -> None:
    client = brokers.leader.connect()
    for count in (1, 3, 2):
        brokers.write(client, count)
    brokers.write(client, 5, partition=1)
    brokers.run_until_equal()
    brokers.run_until_equal(partition=1)
    assert brokers.follower.log().log_end_offset == 6
    # The leader hears with the next fetch that its follower has everything, and says with its answer what is committed.
    brokers.run(lambda: brokers.follower.published(NAME).hw_offset == 6, "the follower shows what is committed")
    assert brokers.follower.published(NAME).leo_offset == 6


def test_a_follower_in_sync_hears_what_is_committed_without_further_records(brokers: TwoBrokers) -> None:
    """The high watermark moves when the follower asks for what comes next, and there may be nothing next."""
    rows = tuple(structs.replace(row, isr=(1, 2), partition_epoch=1) for row in brokers.topic.partitions)
    for broker in brokers.brokers:
        broker.publish(PartitionsChanged(NAME, rows), to=(WORKER, NETWORK, FETCHER))
        broker.run_until_known()
    client = brokers.leader.connect()
    for end in (3, 6):
        brokers.write(client, 3)
        for broker in brokers.brokers:
            published = partial(broker.published, NAME)
            brokers.run(lambda end=end, of=published: of().hw_offset == end, "it is committed")  # type: ignore[misc]


def test_a_fetcher_that_dies_is_replaced_and_its_successor_goes_on(brokers: TwoBrokers) -> None:
    client = brokers.leader.connect()
    brokers.write(client)
    brokers.run_until_equal()
    brokers.follower.kill(FETCHER)
    brokers.write(client)
    brokers.follower.begin(FETCHER)
    brokers.run_until_equal()


def test_a_worker_that_dies_is_replaced_and_its_successor_follows_on(brokers: TwoBrokers) -> None:
    client = brokers.leader.connect()
    brokers.write(client)
    brokers.run_until_equal()
    brokers.follower.kill(WORKER)
    brokers.follower.tell_roster()
    brokers.write(client)
    brokers.follower.begin(WORKER)
    brokers.follower.run_until_online(NAME)
    brokers.run_until_equal()


def test_what_only_a_former_leader_has_is_cut(brokers: TwoBrokers) -> None:
    old, client = brokers.leader, brokers.leader.connect()
    brokers.write(client)
    brokers.run_until_equal()
    brokers.follower.kill(FETCHER)
    brokers.write(client, 4)
    brokers.lead(1, 1)
    new_client = brokers.leader.connect()
    brokers.write(new_client, 2)
    brokers.leader.begin(FETCHER)
    brokers.run_until_equal()
    assert brokers.follower is old
    assert [tuple(entry) for entry in old.log().epochs.entries] == [(0, 0), (1, 1)]
    assert old.published(NAME).leo_offset == 3


def test_records_that_are_deleted_from_a_quiet_log_are_deleted_by_its_follower(brokers: TwoBrokers) -> None:
    """Nothing is appended any more, and the follower's session has nothing to say for a while."""
    client = brokers.leader.connect()
    brokers.write(client, 3)
    brokers.run_until_equal()
    for start in (1, 2, 3):
        _run_until_quiet(brokers)
        client.send(delete_records(NAME, 0, start, timeout_ms=8_000))
        brokers.run(lambda: client.replies, "a reply comes")
        # DeleteRecords 0: the reply ends with the low watermark and the error code.
        assert client.replies.pop(0)[1][-10:] == start.to_bytes(8, "big") + bytes(2)
        assert brokers.follower.log().log_start_offset == start


def _run_until_quiet(brokers: TwoBrokers) -> None:
    """The follower gets answers without news."""
    block = brokers.follower.block(FETCHER)
    enough = block[FETCHER_REQUESTS] + 5
    brokers.run(lambda: block[FETCHER_REQUESTS] >= enough, "the follower asks a few times")


def test_a_log_that_begins_within_a_batch_of_its_leader_is_followed(brokers: TwoBrokers) -> None:
    """DeleteRecords may say any offset; who was away meanwhile gets that batch as the first one."""
    brokers.follower.kill(FETCHER)
    client = brokers.leader.connect()
    client.send(produce({(NAME, 0): batch(5)}))
    brokers.run(lambda: client.replies, "a reply comes")
    assert read_produced(client.replies.pop(0)[1])[NAME, 0].error == 0
    client.send(delete_records(NAME, 0, 3, timeout_ms=100))
    brokers.run(lambda: client.replies, "the records are deleted")
    client.replies.clear()
    brokers.follower.begin(FETCHER)
    brokers.run_until_equal()
    brokers.run(lambda: brokers.follower.log().log_start_offset == 3, "the follower begins where the leader does")
    assert brokers.follower.published(NAME).hw_offset == 5
    brokers.write(client, 2)
    brokers.run_until_equal()


def test_a_changed_file_changes_how_fast_throttled_replicas_are_fetched(brokers: TwoBrokers) -> None:
    """SIGHUP: the rate of the file holds, until kafka-configs has another one."""
    follower = brokers.follower
    quota = follower.fetcher._quota._manager
    assert isinstance(quota, ThrottledRate)

    def rate_is(expected: int) -> None:
        brokers.run(lambda: quota._quota.rate == expected, f"the rate is {expected}")

    rate_is(NO_LIMIT)
    follower.tell(FETCHER, Reload({**follower.config.texts.static, FOLLOWER_RATE: "3000"}))
    rate_is(3000)
    follower.publish(BrokerConfigChanged("", {FOLLOWER_RATE: "5000"}), to=(WORKER, NETWORK, FETCHER))
    rate_is(5000)
    follower.tell(FETCHER, Reload(dict(follower.config.texts.static)))
    follower.publish(BrokerConfigChanged("", {}), to=(WORKER, NETWORK, FETCHER))
    rate_is(NO_LIMIT)


def test_quotas_of_clients_do_not_hold_back_a_follower(tmp_path: Path) -> None:
    brokers = TwoBrokers(tmp_path, settings={"kafkad.quota.consumer.byte.rate.default": "10"})
    client, block = brokers.leader.connect(), brokers.leader.block(NETWORK)
    for _ in range(5):
        brokers.write(client, 3)
    brokers.run(lambda: block[THROTTLED] or brokers.are_equal(), "the follower has all records or is throttled")
    assert block[THROTTLED] == 0
    brokers.close()


def test_what_is_fetched_is_counted_and_how_far_behind_a_replica_is(brokers: TwoBrokers) -> None:
    block, table = brokers.follower.block(FETCHER), brokers.follower.table
    client = brokers.leader.connect()
    brokers.write(client, 4)
    brokers.run_until_equal()
    assert block[FETCHER_REQUESTS] > 0
    assert block[FETCHER_BYTES] == len(brokers.follower.content())
    brokers.run(lambda: block[FETCHER_LEADERS] == 1, "there is one leader to ask")
    assert block[FAILED_PARTITIONS] == 0
    slot = brokers.follower.slot(NAME, 0)
    table.set_lag(slot, 7)
    brokers.write(client, 1)
    brokers.run_until_equal()
    brokers.run(lambda: table.lag(slot) == 0, "it has all that is committed")
    assert table.read(slot).leo_offset == 5, "the lag is beside what the owner publishes"


def test_throttled_replicas_are_counted_on_both_sides_while_there_is_a_rate(brokers: TwoBrokers) -> None:
    throttled = {LEADER_REPLICAS: "*", FOLLOWER_REPLICAS: "*"}
    rates = {FOLLOWER_RATE: "1000000000", LEADER_RATE: "1000000000"}
    for broker in brokers.brokers:
        changes = TopicConfigChanged(NAME, throttled), BrokerConfigChanged("", rates)
        for change in changes:
            broker.publish(change, to=(WORKER, NETWORK, FETCHER))
        broker.run_until_known()
    client = brokers.leader.connect()
    brokers.write(client, 4)
    brokers.run_until_equal()
    sent = brokers.leader.block(NETWORK)[THROTTLED_LEADER_BYTES]
    fetched = brokers.follower.block(FETCHER)[THROTTLED_FOLLOWER_BYTES]
    assert sent == fetched == len(brokers.follower.content())
