"""The internal topics of a real broker: made when first needed, one warning each, and nobody's to write or empty.

Real, as controller, coordinators and cleaner meet at them, each in another process.
"""

from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from bench.brokers.processes import WITHIN_S, eventually
from kafkad.core.errors import ErrorCode
from tests.daemon.group_client import GroupClient, patiently
from tests.daemon.served import Served
from tests.tools.raw_requests import batch, produce, read_produced

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
OVERRIDES = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.num.partitions": "2",
}


def configs_of(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (described,) = admin.describe_configs([resource]).values()
    return {name: entry.value for name, entry in described.result(WITHIN_S).items() if not entry.is_default}


def test_they_are_made_once_with_their_own_settings(tmp_path: Path) -> None:
    with Served(tmp_path, OVERRIDES) as served, GroupClient(served.broker.port) as client:
        admin = AdminClient({"bootstrap.servers": served.broker.bootstrap, "log_level": 0})
        assert not {OFFSETS, TRANSACTIONS} & admin.list_topics(timeout=WITHIN_S).topics.keys()
        for key_type in (0, 1):
            for key in ("a", "b"):
                row = client.find(key, key_type=key_type)[key]
                assert (int(row.error_code), row.port) == (0, served.broker.port)
        topics = admin.list_topics(timeout=WITHIN_S).topics
        assert (len(topics[OFFSETS].partitions), len(topics[TRANSACTIONS].partitions)) == (3, 2)
        assert configs_of(admin, OFFSETS) == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "1048576",
        }
        assert configs_of(admin, TRANSACTIONS) == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        }
        for topic in (OFFSETS, TRANSACTIONS):
            assert "is created with 1 replica(s)" in served.one_line(f"{topic} is created with")


def test_one_that_can_not_be_made_is_said_once_with_its_reason(tmp_path: Path) -> None:
    with (
        Served(tmp_path, {**OVERRIDES, "offsets.topic.segment.bytes": "16384"}) as served,
        GroupClient(served.broker.port) as client,
    ):
        for _ in range(3):
            row = client.find("g")["g"]
            assert int(row.error_code) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        line = served.one_line(f"can't create {OFFSETS}")
        assert "segment.bytes" in line and "16384" in line and "1048576" in line


def test_clients_write_nothing_into_them_and_retention_leaves_them_alone(tmp_path: Path) -> None:
    overrides = {
        **OVERRIDES,
        "log.retention.ms": "1",
        "log.retention.check.interval.ms": "100",
        "log.initial.task.delay.ms": "1",
        "offsets.topic.num.partitions": "1",
    }
    with Served(tmp_path, overrides) as served, GroupClient(served.broker.port) as client:
        client.find("g")
        assert patiently(lambda: client.commit("g", {("t", 0): 7})) == ErrorCode.NONE
        with served.connect() as raw:
            refused = read_produced(raw.ask(produce({(OFFSETS, 0): batch()})))
            assert refused[OFFSETS, 0].error == ErrorCode.INVALID_TOPIC_EXCEPTION
            raw.ask(produce({("t", 0): batch()}))
        eventually(lambda: served.lines("t-0: log start offset increased from 0 to 1"), what="retention was at work")
        assert served.lines(f"{OFFSETS}-0: log start offset") == []
        assert client.fetch_offsets("g")["g"] == (ErrorCode.NONE, {("t", 0): 7})
