"""How far followers are behind, and how fast records move between brokers."""

from collections.abc import Iterator

from kafkad.core.metrics.catalogue import (
    BLOCK_WORDS,
    FETCHER_BYTES,
    FETCHER_LEADERS,
    FETCHER_REQUESTS,
    THROTTLED_FOLLOWER_BYTES,
    THROTTLED_LEADER_BYTES,
)
from kafkad.core.metrics.metric import MetricsSnapshot
from kafkad.core.metrics.partitions import PartitionReading
from kafkad.core.metrics.snapshot import BrokerReading, ProcessReading, SnapshotBuilder
from kafkad.core.partition_slot import ROLE_FOLLOWER, ROLE_LEADER, STATE_ONLINE, PartitionSlot

MANAGER = "kafka_server_replicafetchermanager_"


class Broker:
    """The words of its processes, and what is read of them."""

    def __init__(self) -> None:
        self.network = [0] * BLOCK_WORDS
        self.fetchers = [[0] * BLOCK_WORDS, [0] * BLOCK_WORDS]
        self.builder = SnapshotBuilder({})
        self.now_s = 0

    def snapshot(self, *partitions: PartitionReading, per_partition: bool = False, dead: int = 0) -> MetricsSnapshot:
        return self.builder.build(
            BrokerReading(
                now_ns=self.now_s * 1_000_000_000,
                wall_ms=0,
                broker_state=3,
                processes=[
                    ProcessReading("network", 0, 1, self.network),
                    *[ProcessReading("fetcher", number, 1, words) for number, words in enumerate(self.fetchers)],
                ],
                partitions=partitions,
                per_partition=per_partition,
                dead_fetchers=dead,
            )
        )


def replica(partition: int, role: int, lag: int) -> PartitionReading:
    slot = PartitionSlot(partition=partition, role=role, state=STATE_ONLINE)
    return PartitionReading("t", slot, 0, 0, 0, 3, 3, lag)


def names(snapshot: MetricsSnapshot) -> Iterator[str]:
    return (family.name for family in snapshot.families)


def test_the_largest_lag_is_that_of_a_replica_that_follows() -> None:
    partitions = (replica(0, ROLE_FOLLOWER, 5), replica(1, ROLE_FOLLOWER, 70), replica(2, ROLE_LEADER, 900))
    snapshot = Broker().snapshot(*partitions)
    assert snapshot.value(MANAGER + "maxlag") == 70
    assert "kafka_server_fetcherlagmetrics_consumerlag" not in names(snapshot)
    assert Broker().snapshot().value(MANAGER + "maxlag") == 0


def test_each_replica_has_a_lag_if_partitions_are_shown() -> None:
    partitions = (replica(0, ROLE_FOLLOWER, 5), replica(1, ROLE_FOLLOWER, 0), replica(2, ROLE_LEADER, 900))
    snapshot = Broker().snapshot(*partitions, per_partition=True)
    (found,) = [each for each in snapshot.families if each.name == "kafka_server_fetcherlagmetrics_consumerlag"]
    assert found.jmx_name == "kafka.server:type=FetcherLagMetrics,name=ConsumerLag"
    lags = {dict(each.labels)["partition"]: each.value for each in found.samples}
    assert lags == {"0": 5, "1": 0}


def test_requests_and_bytes_are_shown_of_fetchers_only() -> None:
    broker = Broker()
    broker.fetchers[0][FETCHER_REQUESTS], broker.fetchers[1][FETCHER_BYTES] = 3, 400
    snapshot = broker.snapshot()
    requests, fetched = "kafka_server_fetcherstats_requests", "kafka_server_fetcherstats_bytes"
    assert snapshot.value(requests, process="fetcher-0") == 3
    assert snapshot.value(fetched, process="fetcher-1") == 400
    (found,) = [each for each in snapshot.families if each.name == requests]
    assert len(found.samples) == 2


def test_the_slowest_fetcher_is_one_that_has_a_leader_to_ask() -> None:
    broker = Broker()
    assert MANAGER + "minfetchrate" not in names(broker.snapshot())
    broker.now_s = 10
    broker.fetchers[0][FETCHER_REQUESTS] = 50
    assert broker.snapshot().value(MANAGER + "minfetchrate") == 0, "nobody follows anything"
    broker.fetchers[0][FETCHER_LEADERS] = 2
    broker.now_s = 20
    broker.fetchers[0][FETCHER_REQUESTS] += 50
    assert broker.snapshot().value(MANAGER + "minfetchrate") == 5
    broker.fetchers[1][FETCHER_LEADERS] = 1
    broker.now_s = 30
    broker.fetchers[0][FETCHER_REQUESTS] += 50
    assert broker.snapshot().value(MANAGER + "minfetchrate") == 0, "the other hangs"


def test_the_rates_of_throttled_replicas_are_of_all_processes() -> None:
    broker = Broker()
    broker.snapshot()
    broker.now_s = 4
    broker.network[THROTTLED_LEADER_BYTES] = 4_000
    broker.fetchers[0][THROTTLED_FOLLOWER_BYTES] = broker.fetchers[1][THROTTLED_FOLLOWER_BYTES] = 1_000
    snapshot = broker.snapshot()
    assert snapshot.value("kafka_server_leaderreplication_byte_rate") == 1_000
    assert snapshot.value("kafka_server_followerreplication_byte_rate") == 500
    assert snapshot.value("kafkad_replication_throttled_bytes", role="leader") == 4_000
    broker.now_s = 8
    assert broker.snapshot().value("kafka_server_leaderreplication_byte_rate") == 0


def test_dead_fetchers_are_counted_where_there_are_fetchers() -> None:
    broker = Broker()
    assert broker.snapshot(dead=1).value(MANAGER + "deadthreadcount") == 1
    broker.fetchers = []
    assert MANAGER + "deadthreadcount" not in names(broker.snapshot())
