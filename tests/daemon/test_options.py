"""Options that only a running broker shows the effect of, each with a value that no default has.

Real, as each has to come from the command line to another process. One broker has them all.
"""

import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bench.brokers.daemon import Kafkad
from kafkad.client.broker_client import BROKER_DEFAULT, BrokerClient
from kafkad.client.connection import BrokerCallFailed
from kafkad.core.errors import ErrorCode
from kafkad.core.log.records.batch import Codec, read_header
from tests.daemon.group_client import GroupClient, patiently
from tests.daemon.served import Served
from tests.handlers.kio_calls import KioApi
from tests.tools import raw_requests as raw

OTHER_ADDRESS = "127.0.0.2"
OPTIONS = {
    "max.connections.per.ip.overrides": f"{OTHER_ADDRESS}:1",
    "fetch.max.bytes": "1024",
    "delete.topic.enable": "false",
    "default.replication.factor": "2",
    "max.request.partition.size.limit": "2",
    "log.message.timestamp.type": "LogAppendTime",
    "transaction.max.timeout.ms": "5000",
    "group.max.session.timeout.ms": "7000",
    "group.consumer.heartbeat.interval.ms": "6000",
    "group.consumer.max.size": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.compression.codec": "1",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("broker"), OPTIONS) as broker:
        yield broker


@pytest.fixture
def client(served: Served) -> Iterator[GroupClient]:
    with GroupClient(served.broker.port) as connected:
        yield connected


def test_an_address_may_have_a_limit_of_its_own(served: Served) -> None:
    def connect() -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", served.broker.port), 60, source_address=(OTHER_ADDRESS, 0))
        sock.sendall(raw.api_versions())
        return sock

    with connect() as first, connect() as second:
        # Which of them is let in, the network processes decide.
        assert sorted(bool(_received(each)) for each in (first, second)) == [False, True]


def test_a_name_may_have_a_limit_where_the_listener_is_on_every_interface(tmp_path: Path) -> None:
    """Such a listener shows an IPv4 address in IPv6's form; clients are told it as it is."""
    broker = Kafkad(tmp_path, {"max.connections.per.ip.overrides": "localhost:1"})
    broker.overrides["listeners"] = f"PLAINTEXT://:{broker.port}"

    def is_let_in(client: raw.RawClient) -> bool:
        try:
            return bool(client.ask(raw.api_versions()))
        except OSError:
            return False

    with broker, raw.RawClient(broker.port) as first, raw.RawClient(broker.port) as second:
        assert sorted((is_let_in(first), is_let_in(second))) == [False, True]


def _received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(4)
    except ConnectionError:
        return b""


def test_no_fetch_brings_more_than_the_broker_wants(served: Served) -> None:
    with served.connect() as client:
        for _ in range(5):
            client.ask(raw.produce({("t", 1): raw.batch(size=600)}))
        found = raw.read_fetched(client.ask(raw.fetch({("t", 1): 0}, max_bytes=1 << 20)))["t", 1]
    assert 600 < len(found.records) <= 1024


def test_topics_are_not_deleted(served: Served) -> None:
    with BrokerClient(served.broker.bootstrap) as client, pytest.raises(BrokerCallFailed) as refused:
        client.delete_topic("t")
    assert refused.value.code is ErrorCode.TOPIC_DELETION_DISABLED


def test_topics_want_as_many_replicas_as_the_default_says(served: Served) -> None:
    default = {"partitions": BROKER_DEFAULT, "replication_factor": BROKER_DEFAULT}
    with BrokerClient(served.broker.bootstrap) as client, pytest.raises(BrokerCallFailed) as refused:
        client.create_topic("two", **default, configs={})
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "replication factor of 2" in str(refused.value)


def test_one_answer_lists_only_so_many_partitions(served: Served, client: GroupClient) -> None:
    with BrokerClient(served.broker.bootstrap) as admin:
        admin.create_topic("wide", partitions=3, replication_factor=1, configs={})

    def build(api: KioApi) -> dict[str, object]:
        return {
            "topics": (api.part("TopicRequest", name="wide"),),
            "response_partition_limit": 2000,
            "cursor": None,
        }

    client.send("describe_topic_partitions", 0, build)
    answer = client.receive()
    assert [row.partition_index for topic in answer.topics for row in topic.partitions] == [0, 1]
    assert answer.next_cursor.partition_index == 2


def test_records_get_the_time_of_the_broker(served: Served) -> None:
    with served.connect() as client:
        answer = raw.read_produced(client.ask(raw.produce({("t", 0): raw.batch()})))["t", 0]
        found = raw.read_fetched(client.ask(raw.fetch({("t", 0): answer.base_offset})))["t", 0]
    assert read_header(found.records).is_log_append_time


def test_transactions_may_be_open_for_so_long(client: GroupClient) -> None:
    def asked(timeout_s: int) -> ErrorCode:
        answer = client.ask(
            "init_producer_id",
            4,
            transactional_id="t",
            transaction_timeout=timedelta(seconds=timeout_s),
            producer_id=-1,
            producer_epoch=-1,
        )
        return ErrorCode(int(answer.error_code))

    client.find("t", key_type=1)
    assert patiently(lambda: asked(6)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert patiently(lambda: asked(5)) is ErrorCode.NONE


def test_sessions_of_members_are_bounded(client: GroupClient) -> None:
    client.find("bounded")
    joined = patiently(lambda: ErrorCode(int(client.join("bounded", session_ms=7_001).error_code)))
    assert joined is ErrorCode.INVALID_SESSION_TIMEOUT


def test_groups_of_the_consumer_protocol_are_told_how_to_behave(client: GroupClient) -> None:
    def heartbeat(member: str) -> tuple[ErrorCode, timedelta]:
        answer = client.ask(
            "consumer_group_heartbeat",
            0,
            group_id="modern",
            member_id=member,
            member_epoch=0,
            rebalance_timeout=timedelta(seconds=60),
            subscribed_topic_names=("t",),
            server_assignor=None,
            topic_partitions=(),
        )
        return ErrorCode(int(answer.error_code)), answer.heartbeat_interval

    client.find("modern")
    assert patiently(lambda: heartbeat("first")[0]) is ErrorCode.NONE
    assert heartbeat("first")[1] == timedelta(seconds=6)
    assert heartbeat("second")[0] is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_commits_are_compressed(served: Served, client: GroupClient) -> None:
    client.find("committing")
    assert patiently(lambda: client.commit("committing", {("t", 0): 1})) is ErrorCode.NONE
    (log,) = (path.read_bytes() for path in (served.broker.log_dir / "__consumer_offsets-0").glob("*.log"))
    assert Codec(read_header(log).codec_bits) is Codec.GZIP
