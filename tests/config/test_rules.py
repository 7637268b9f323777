"""Values that contradict each other: Apache Kafka 4.3 was asked each of these and does not start with those refused.

`KRAFT` is what its own configuration needs besides.
"""

import pytest

from tests.config.configurations import configured, problems

LISTENERS = "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
KRAFT = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": LISTENERS,
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "/data",
}
REFUSED: tuple[tuple[str, dict[str, str]], ...] = (
    ("broker.id", {"broker.id": "2"}),
    ("log.roll.ms", {"log.roll.ms": "0"}),
    ("log.roll.jitter.ms", {"log.roll.jitter.ms": "-1"}),
    ("log.retention.ms", {"log.retention.ms": "0"}),
    ("log.retention.minutes", {"log.retention.minutes": "0"}),
    ("log.retention.hours", {"log.retention.hours": "0"}),
    ("log.dirs", {"log.dirs": ""}),
    ("log.dirs", {"log.dirs": "/data,,/more"}),
    ("cordoned.log.dirs", {"cordoned.log.dirs": "/nowhere"}),
    ("log.cleaner.threads", {"log.cleaner.threads": "0"}),
    ("log.cleaner.dedupe.buffer.size", {"log.cleaner.threads": "128"}),
    ("log.cleaner.dedupe.buffer.size", {"log.cleaner.dedupe.buffer.size": "1048576"}),
    ("replica.fetch.wait.max.ms", {"replica.fetch.wait.max.ms": "30001", "replica.lag.time.max.ms": "40000"}),
    ("replica.fetch.wait.max.ms", {"replica.fetch.wait.max.ms": "30001", "replica.socket.timeout.ms": "40000"}),
    ("replica.fetch.wait.max.ms", {"replica.lag.time.max.ms": "1"}),
    ("queued.max.request.bytes", {"queued.max.request.bytes": "1"}),
    ("max.connections.per.ip", {"max.connections.per.ip": "0"}),
    ("max.connections.per.ip.overrides", {"max.connections.per.ip.overrides": "bad host:1"}),
    ("max.connections.per.ip.overrides", {"max.connections.per.ip.overrides": "127.0.0.1:x"}),
    ("max.connections.per.ip.overrides", {"max.connections.per.ip.overrides": "127.0.0.1"}),
    ("max.connections.per.ip.overrides", {"max.connections.per.ip.overrides": "[::1]:5"}),
    ("max.connections.per.ip.overrides", {"max.connections.per.ip.overrides": "127.0.0.1:99999999999"}),
    ("connections.max.idle.ms", {"connections.max.idle.ms": "100"}),
    ("connections.max.idle.ms", {"connections.max.idle.ms": "0"}),
    ("connections.max.idle.ms", {"connection.failed.authentication.delay.ms": "700000"}),
    ("inter.broker.listener.name", {"inter.broker.listener.name": "FOO"}),
    (
        "security.inter.broker.protocol",
        {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
    ),
    ("security.inter.broker.protocol", {"security.inter.broker.protocol": "SSL"}),
    ("early.start.listeners", {"early.start.listeners": "FOO"}),
    ("group.consumer.max.session.timeout.ms", {"group.consumer.max.session.timeout.ms": "44999"}),
    ("group.consumer.session.timeout.ms", {"group.consumer.session.timeout.ms": "44999"}),
    ("group.consumer.session.timeout.ms", {"group.consumer.session.timeout.ms": "60001"}),
    ("group.consumer.heartbeat.interval.ms", {"group.consumer.heartbeat.interval.ms": "4999"}),
    ("group.consumer.max.heartbeat.interval.ms", {"group.consumer.max.heartbeat.interval.ms": "4999"}),
    ("group.consumer.assignment.interval.ms", {"group.consumer.assignment.interval.ms": "15001"}),
    ("group.consumer.assignment.interval.ms", {"group.consumer.min.assignment.interval.ms": "1001"}),
    (
        "group.consumer.heartbeat.interval.ms",
        {"group.consumer.max.heartbeat.interval.ms": "60000", "group.consumer.heartbeat.interval.ms": "45000"},
    ),
    ("group.streams.max.session.timeout.ms", {"group.streams.max.session.timeout.ms": "44999"}),
    ("group.streams.session.timeout.ms", {"group.streams.session.timeout.ms": "60001"}),
    ("group.streams.heartbeat.interval.ms", {"group.streams.heartbeat.interval.ms": "15001"}),
    ("group.streams.assignment.interval.ms", {"group.streams.assignment.interval.ms": "15001"}),
    ("group.streams.num.standby.replicas", {"group.streams.num.standby.replicas": "3"}),
    ("group.share.session.timeout.ms", {"group.share.session.timeout.ms": "60001"}),
    ("group.share.heartbeat.interval.ms", {"group.share.heartbeat.interval.ms": "4999"}),
    ("group.share.assignment.interval.ms", {"group.share.assignment.interval.ms": "15001"}),
    ("group.share.record.lock.duration.ms", {"group.share.record.lock.duration.ms": "1000"}),
    ("group.share.partition.max.record.locks", {"group.share.partition.max.record.locks": "5000"}),
    (
        "group.share.delivery.count.limit",
        {"group.share.delivery.count.limit": "10", "group.share.max.delivery.count.limit": "5"},
    ),
    ("group.coordinator.rebalance.protocols", {"group.coordinator.rebalance.protocols": "consumer"}),
    ("group.coordinator.rebalance.protocols", {"group.coordinator.rebalance.protocols": ""}),
    ("group.coordinator.rebalance.protocols", {"group.coordinator.rebalance.protocols": "CLASSIC"}),
    ("group.consumer.assignors", {"group.consumer.assignors": ""}),
    ("group.consumer.migration.policy", {"group.consumer.migration.policy": "foo"}),
    ("offsets.topic.compression.codec", {"offsets.topic.compression.codec": "5"}),
    ("offsets.topic.compression.codec", {"offsets.topic.compression.codec": "-1"}),
)
ACCEPTED: tuple[dict[str, str], ...] = (
    {},
    {"log.retention.ms": "-2"},
    {"log.retention.hours": "-5"},
    {"log.roll.hours": "2147483647"},
    {"log.cleaner.threads": "127"},
    {"log.cleaner.dedupe.buffer.size": "1048577"},
    {
        "replica.fetch.wait.max.ms": "30001",
        "replica.socket.timeout.ms": "40000",
        "replica.lag.time.max.ms": "30001",
    },
    {"queued.max.request.bytes": "0"},
    {"queued.max.request.bytes": "-5"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:1"},
    {"max.connections.per.ip.overrides": "::1:5"},
    {"connections.max.idle.ms": "-1"},
    {"connections.max.idle.ms": "101"},
    {"inter.broker.listener.name": "PLAINTEXT"},
    {"early.start.listeners": "CONTROLLER"},
    {"cordoned.log.dirs": "/data"},
    {"group.min.session.timeout.ms": "1800001"},
    {"group.max.session.timeout.ms": "1"},
    {"group.coordinator.rebalance.protocols": "classic"},
    {"group.coordinator.rebalance.protocols": "classic,consumer,share,streams"},
    {"group.consumer.assignors": "uniform,uniform"},
    {"group.consumer.migration.policy": "Upgrade"},
    {"offsets.topic.compression.codec": "4"},
    {"log.flush.scheduler.interval.ms": "-1"},
    {"replica.high.watermark.checkpoint.interval.ms": "-1"},
    {"socket.send.buffer.bytes": "-2"},
    {"default.replication.factor": "-1"},
    {"add.partitions.to.txn.retry.backoff.ms": "200", "add.partitions.to.txn.retry.backoff.max.ms": "100"},
    {"transaction.state.log.min.isr": "4", "transaction.state.log.replication.factor": "3"},
)


@pytest.mark.parametrize(("name", "changes"), REFUSED)
def test_what_apache_kafka_does_not_start_with_is_refused_by_name(name: str, changes: dict[str, str]) -> None:
    (problem,) = problems(*{**KRAFT, **changes}.items())
    assert name in problem


@pytest.mark.parametrize("changes", ACCEPTED)
def test_what_apache_kafka_starts_with_is_accepted(changes: dict[str, str]) -> None:
    assert problems(*{**KRAFT, **changes}.items()) == []


def test_group_protocol_that_is_not_offered_yet_is_named_when_somebody_asks_for_it() -> None:
    name = "group.coordinator.rebalance.protocols"
    (notice,) = configured((name, "classic,share")).notices
    assert notice == f"share in {name} has no effect: share groups are not supported"
    assert configured((name, "classic,consumer,streams")).notices == configured((name, "classic")).notices == ()


@pytest.mark.parametrize("version", ["0.8.0", "2.7", "2.8-IV0", "4.0-IV0", "new", ""])
def test_a_protocol_that_brokers_here_do_not_speak_is_refused_in_a_cluster(version: str) -> None:
    setting = ("inter.broker.protocol.version", version)
    (line,) = problems(("zookeeper.connect", "127.0.0.1:2181"), setting)
    assert "supported are 2.8-IV1 to 3.9-IV0 (older levels have no topic ids)" in line
    assert "\n" not in line
    assert problems(setting) == []


@pytest.mark.parametrize(("version", "fetch"), [("2.8", 12), ("3.1", 13), ("3.9-IV0", 17), ("3.5.2", 15)])
def test_a_cluster_speaks_the_protocol_that_it_is_told(version: str, fetch: int) -> None:
    cluster = configured(("zookeeper.connect", "127.0.0.1:2181"), ("inter.broker.protocol.version", version)).cluster
    assert cluster is not None
    assert cluster.versions.fetch == fetch


@pytest.mark.parametrize(
    ("connect", "hosts"),
    [
        ("zk1:2181 , zk2:2181,\tzk3 /kafka/one", "zk1:2181,zk2:2181,zk3/kafka/one"),
        ("zk1:2181,,zk2:2181,", "zk1:2181,zk2:2181"),
        ("[::1]:2181/", "[::1]:2181/"),
        ("zk_1", "zk_1"),
    ],
)
def test_servers_may_have_blanks_and_nothing_between_them(connect: str, hosts: str) -> None:
    """As for Apache Kafka; the broker waited for ever for the port "2181 "."""
    cluster = configured(("zookeeper.connect", connect)).cluster
    assert cluster is not None
    assert cluster.zookeeper_connect == hosts


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        ("/../", "ends with /"),
        ("/..", "is relative"),
        ("/a/./b", "is relative"),
        ("/a/", "ends with /"),
        ("//", "ends with /"),
        ("//a", "has an empty name"),
        ("/a//b", "has an empty name"),
        ("/a\x01b", "has the character"),
        ("/a\tb", "has the character"),
        ("/a\ue000", "has the character"),
        ("/\U0001f600", "has the character"),
    ],
)
def test_path_that_zookeeper_has_not_is_refused(root: str, reason: str) -> None:
    """As ZooKeeper's own client does; the broker waited for it for ever."""
    (problem,) = problems(("zookeeper.connect", f"zk1:2181{root}"))
    assert "zookeeper.connect: " in problem
    assert reason in problem


@pytest.mark.parametrize("root", ["/", "/kafka", "/a b", "/...", "/.a", "/a.", "/å"])
def test_any_other_path_is_taken(root: str) -> None:
    assert configured(("zookeeper.connect", f"zk1:2181{root}")).cluster is not None


@pytest.mark.parametrize(
    "connect", ["zk1:port", "zk1:99999", "zk1:0", "::1:2181", ":2181", ",", "/kafka", "zk1 zk2", "a?b"]
)
def test_what_names_no_server_is_refused(connect: str) -> None:
    """It was waited for, as if ZooKeeper were away."""
    (problem,) = problems(("zookeeper.connect", connect))
    assert "zookeeper.connect: " in problem
    assert "has no server" in problem or "is not a server" in problem
