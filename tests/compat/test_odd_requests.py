"""Requests that no ordinary client sends, to kafkad and to Apache Kafka: the same answers, in every field.

Groups, offsets and transactions have files of their own beside this one.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import eventually
from kafkad.wire.api_table import DESCRIBE_CONFIGS, FETCH, FIND_COORDINATOR
from tests.compat.group_sides import Member, Side
from tests.handlers.kio_calls import KioApi, versions_of
from tests.tools.raw_requests import (
    API_VERSIONS,
    batch,
    create_topic,
    fetch,
    framed,
    produce,
    read_fetched,
    read_produced,
)

TOPIC = "odd-requests"
SAFE = "odd-min-insync"
Asking = Callable[[Member], None]


def unknown_kinds_of_coordinators(member: Member) -> None:
    for version in versions_of(FIND_COORDINATOR):
        for key_type in (-1, 3) if version >= 1 else ():
            member.ask("find_coordinator", version, key="k", coordinator_keys=("k",), key_type=key_type)


def configs_that_are_there_and_not(member: Member) -> None:
    for version in versions_of(DESCRIBE_CONFIGS):
        part = KioApi("describe_configs", version).part
        for name in (TOPIC, "nowhere"):
            keys = ("retention.ms",)
            asked = part("DescribeConfigsResource", resource_type=2, resource_name=name, configuration_keys=keys)
            member.ask("describe_configs", version, resources=(asked,), include_synonyms=False)


def a_cursor_without_a_name(member: Member) -> None:
    part = KioApi("describe_topic_partitions", 0).part
    cursor = part("Cursor", topic_name="", partition_index=0)
    topics = (part("TopicRequest", name=TOPIC),)
    member.ask("describe_topic_partitions", 0, topics=topics, cursor=cursor, response_partition_limit=9)


def negative_leader_epochs(member: Member) -> None:
    member.client.ask(produce({(TOPIC, 0): batch()}))
    for version in (version for version in versions_of(FETCH) if version < 13):
        part = KioApi("fetch", version).part
        for epochs in ((-2, -1), (-1, -2), (1, -1), (0, 0)):
            asked = part(
                "FetchPartition",
                partition=0,
                current_leader_epoch=epochs[0],
                fetch_offset=10_000,
                last_fetched_epoch=epochs[1],
                partition_max_bytes=1,
            )
            whole = {
                "replica_id": -1,
                "max_wait": timedelta(),
                "min_bytes": 0,
                "topics": (part("FetchTopic", topic=TOPIC, partitions=(asked,)),),
                "forgotten_topics_data": (),
                "session_epoch": -1,
                "rack_id": "",
            }
            member.ask("fetch", version, **whole)


def groups_without_a_name_or_a_topic(member: Member) -> None:
    for version in (0, 1):
        member.ask("consumer_group_describe", version, group_ids=("",), include_authorized_operations=False)
        for number, topics in enumerate((None, ())):
            group = f"odd-{version}-{number}"
            member.ask(
                "consumer_group_heartbeat",
                version,
                group_id=group,
                member_id="AAAAAAAAAAAAAAAAAAAAAQ",
                member_epoch=0,
                rebalance_timeout=timedelta(seconds=5),
                subscribed_topic_names=topics,
                topic_partitions=(),
            )
            if topics == ():
                member.ask("consumer_group_describe", version, group_ids=(group,), include_authorized_operations=False)


@pytest.mark.parametrize(
    "asking",
    [
        unknown_kinds_of_coordinators,
        configs_that_are_there_and_not,
        a_cursor_without_a_name,
        negative_leader_epochs,
        groups_without_a_name_or_a_topic,
    ],
)
def test_odd_requests_are_answered_as_by_apache_kafka(
    kafkad_broker: RunningBroker, apache_broker: RunningBroker, asking: Asking
) -> None:
    heard = []
    for broker in (kafkad_broker, apache_broker):
        with Side(broker, asking.__name__) as side:
            _prepare(side)
            asking(side.member("odd"))
            heard.append(side.transcript)
    assert heard[0] == heard[1]
    assert heard[0]


@pytest.mark.parametrize(
    "records",
    [batch()[:3], batch()[:-1], batch(is_transactional=True), batch(producer_id=5, base_sequence=0, producer_epoch=0)],
    ids=["hardly anything", "cut short", "a transaction of nobody", "a producer nobody knows"],
)
def test_odd_batches_are_answered_as_by_apache_kafka(
    kafkad_broker: RunningBroker, apache_broker: RunningBroker, records: bytes
) -> None:
    errors = []
    for broker in (kafkad_broker, apache_broker):
        with Side(broker, "batches") as side:
            _prepare(side)
            answer = side.member("odd").client.ask(produce({(TOPIC, 0): records}))
            errors.append(read_produced(answer)[TOPIC, 0].error)
    assert errors[0] == errors[1]


def test_a_topic_that_asks_for_more_replicas_than_it_has_is_written_to(
    kafkad_broker: RunningBroker, apache_broker: RunningBroker
) -> None:
    create = KioApi("create_topics", 7)
    wanted = create.part("CreatableTopicConfig", name="min.insync.replicas", value="2")
    topic = create.part(
        "CreatableTopic", name=SAFE, num_partitions=1, replication_factor=1, assignments=(), configs=(wanted,)
    )
    for broker in (kafkad_broker, apache_broker):
        with Side(broker, "safe") as side:
            member = side.member("odd")
            member.ask("create_topics", 7, topics=(topic,), timeout=timedelta(seconds=30))

            def is_written(member: Member = member) -> bool:
                return read_produced(member.client.ask(produce({(SAFE, 0): batch()}, acks=-1)))[SAFE, 0].error == 0

            eventually(is_written, what=f"{broker.name} takes a record with acks=all")


def test_a_client_id_in_latin_1_is_no_reason_to_hang_up(
    kafkad_broker: RunningBroker, apache_broker: RunningBroker
) -> None:
    request = framed(API_VERSIONS, 0, b"").replace(b"raw", b"r\xe4w")
    for broker in (kafkad_broker, apache_broker):
        with Side(broker, "latin") as side:
            assert side.member("odd").client.ask(request)[:2] == b"\0\0"


def _prepare(side: Side) -> None:
    """The topic has its leader, and groups are coordinated."""
    member = side.member("first")
    member.client.ask(create_topic(TOPIC))

    def is_ready() -> bool:
        read = read_fetched(member.client.ask(fetch({(TOPIC, 0): 0}, min_bytes=0)))
        member.ask("find_coordinator", 0, key=side.group)
        (group,) = member.describe(5).groups
        return (read[TOPIC, 0].error, int(group.error_code)) == (0, 0)

    eventually(is_ready, what=f"{side.broker.name} serves topics and groups")
    side.transcript.clear()
