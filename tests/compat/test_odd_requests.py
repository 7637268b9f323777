"""Requests that no ordinary client sends, to kafkad and to Apache Kafka: the same answers, in every field.

Groups, offsets and transactions have files of their own beside this one.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import eventually
from kafkad.wire.api_table import (
    ADD_PARTITIONS_TO_TXN,
    DELETE_RECORDS,
    DESCRIBE_CONFIGS,
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
)
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
RECORDS = batch()
"""The same for both brokers."""
LEAST_INT, MOST_INT = -(2**31), 2**31 - 1
LEAST_LONG, MOST_LONG = -(2**63), 2**63 - 1
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


def times_beyond_those_of_records(member: Member) -> None:
    member.client.ask(produce({(member.side.group, 0): RECORDS}))
    for version in versions_of(LIST_OFFSETS):
        part = KioApi("list_offsets", version).part
        for timestamp in (*range(-7, 2), LEAST_LONG, LEAST_LONG + 1, -62_135_596_800_000, MOST_LONG - 1, MOST_LONG):
            for partition in (0, -1, MOST_INT):
                row = part(
                    "ListOffsetsPartition", partition_index=partition, current_leader_epoch=-1, timestamp=timestamp
                )
                topics = (part("ListOffsetsTopic", name=member.side.group, partitions=(row,)),)
                whole = {"replica_id": -1, "isolation_level": 0, "topics": topics, "timeout": timedelta()}
                member.ask("list_offsets", version, **whole)


def offsets_to_delete_that_are_none(member: Member) -> None:
    for version in versions_of(DELETE_RECORDS):
        part = KioApi("delete_records", version).part
        for offset in (LEAST_LONG, -3, -2, 0, MOST_LONG, -1):
            for timeout_ms in (LEAST_INT, -1, 0, 30_000):
                for topic in (member.side.group, "nowhere", "__consumer_offsets"):
                    row = part("DeleteRecordsPartition", partition_index=0, offset=offset)
                    topics = (part("DeleteRecordsTopic", name=topic, partitions=(row,)),)
                    member.ask("delete_records", version, topics=topics, timeout=timedelta(milliseconds=timeout_ms))
        member.ask("delete_records", version, topics=(), timeout=timedelta())


def leader_epochs_that_never_were(member: Member) -> None:
    member.client.ask(produce({(member.side.group, 0): RECORDS}))
    for version in versions_of(OFFSET_FOR_LEADER_EPOCH):
        part = KioApi("offset_for_leader_epoch", version).part
        for current in (LEAST_INT, -2, -1, 0, 1, MOST_INT):
            for wanted in (LEAST_INT, -2, -1, 0, 1, MOST_INT):
                row = part("OffsetForLeaderPartition", partition=0, current_leader_epoch=current, leader_epoch=wanted)
                topics = (part("OffsetForLeaderTopic", topic=member.side.group, partitions=(row,)),)
                member.ask("offset_for_leader_epoch", version, replica_id=-1, topics=topics)


def coordinators_of_nothing(member: Member) -> None:
    _wait_for_transactions(member)
    for version in versions_of(FIND_COORDINATOR):
        for keys in ((), ("",), ("a", "a")) if version >= 4 else ((),):
            for key_type in (0, 1) if version >= 1 else (0,):
                member.ask("find_coordinator", version, key="", key_type=key_type, coordinator_keys=keys)
                # Each broker has a port of its own.
                name, api, _, told = member.side.transcript.pop()
                rows = told["coordinators"] if version >= 4 else [told]
                codes = [(each.get("key"), each["node_id"], each["error_code"]) for each in rows]
                member.side.transcript.append((name, api, version, codes))


def fetches_with_odd_limits(member: Member) -> None:
    member.client.ask(produce({(member.side.group, 0): RECORDS}))
    for version in (version for version in versions_of(FETCH) if version < 13):
        part = KioApi("fetch", version).part
        for wait_ms, min_bytes, max_bytes, partition_bytes in (
            (-1, 1 << 20, 1 << 20, 1 << 20),
            (LEAST_INT, 1 << 20, 1 << 20, 1 << 20),
            (0, MOST_INT, 1, 1 << 20),
            (0, -1, 1 << 20, 1 << 20),
            (0, LEAST_INT, 1 << 20, 1 << 20),
            (0, 1, 0, 1 << 20),
            (0, 1, 1 << 20, 0),
            (0, 1, 1, 1),
            (30_000, MOST_INT, 1, 1 << 20),
            (30_000, -1, 0, 0),
        ):
            for offset in (0, -1, LEAST_LONG, MOST_LONG):
                asked = part(
                    "FetchPartition",
                    partition=0,
                    current_leader_epoch=-1,
                    fetch_offset=offset,
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=partition_bytes,
                )
                whole = {
                    "replica_id": -1,
                    "max_wait": timedelta(milliseconds=wait_ms),
                    "min_bytes": min_bytes,
                    "max_bytes": max_bytes,
                    "isolation_level": 0,
                    "session_id": 0,
                    "session_epoch": -1,
                    "topics": (part("FetchTopic", topic=member.side.group, partitions=(asked,)),),
                    "forgotten_topics_data": (),
                    "rack_id": "",
                }
                if (wait_ms, offset, min_bytes) != (30_000, 0, MOST_INT):
                    member.ask("fetch", version, **whole)


def produce_with_odd_acks_and_timeouts(member: Member) -> None:
    for version in (version for version in versions_of(PRODUCE) if version < 13):
        part = KioApi("produce", version).part
        for acks in (-1, 1, 5, 2, -2, -(2**15), 2**15 - 1):
            for timeout_ms in (LEAST_INT, -1, 0, MOST_INT):
                for topic in (member.side.group, "nowhere"):
                    row = part("PartitionProduceData", index=0, records=RECORDS)
                    data = (part("TopicProduceData", name=topic, partition_data=(row,)),)
                    timeout = timedelta(milliseconds=timeout_ms)
                    member.ask("produce", version, transactional_id=None, acks=acks, timeout=timeout, topic_data=data)


def sessions_at_their_limits(member: Member) -> None:
    for version in versions_of(JOIN_GROUP):
        for session_ms in (LEAST_INT, -1, 0, 5_999, 1_800_001, MOST_INT):
            member.join(version, session_timeout=timedelta(milliseconds=session_ms))
        for session_ms in (6_000, 1_800_000) if version >= 4 else ():
            for rebalance_ms in (LEAST_INT, -1, 0, MOST_INT):
                member.member_id = ""
                times = {"session_timeout": session_ms, "rebalance_timeout": rebalance_ms}
                member.join(version, **{name: timedelta(milliseconds=value) for name, value in times.items()})


def rebalances_without_time(member: Member) -> None:
    for rebalance_ms in (LEAST_INT, -1, 0):
        member.member_id = ""
        for _ in range(2):
            member.join(session_timeout=timedelta(minutes=30), rebalance_timeout=timedelta(milliseconds=rebalance_ms))
        member.leave()
        # It may have been removed before, as it has no time to send SyncGroup.
        member.side.transcript.pop()


def transactions_without_partitions(member: Member) -> None:
    ids = _wait_for_transactions(member)
    for version in (version for version in versions_of(ADD_PARTITIONS_TO_TXN) if version < 4):
        for odd in ({}, {"producer_epoch": -1}, {"producer_id": -1}, {"transactional_id": ""}):
            values = {"transactional_id": "odd", **ids, "topics": (), **odd}
            member.ask(
                "add_partitions_to_txn", version, **{f"v3_and_below_{name}": value for name, value in values.items()}
            )
    member.ask("describe_transactions", 0, transactional_ids=("odd",))
    name, api, version, told = member.side.transcript.pop()
    states = [each["transaction_state"] for each in told["transaction_states"]]
    member.side.transcript.append((name, api, version, states))


def _wait_for_transactions(member: Member) -> dict[str, int]:
    """Return when transactional ids have a coordinator: a producer's id and epoch."""
    before = list(member.side.transcript)
    found: dict[str, int] = {}

    def is_ready() -> bool:
        codes = [
            int(each.error_code)
            for each in member.ask("find_coordinator", 4, key_type=1, coordinator_keys=("odd", "a", "")).coordinators
        ]
        made = member.ask("init_producer_id", 2, transactional_id="odd", transaction_timeout=timedelta(seconds=60))
        found.update(producer_id=made.producer_id, producer_epoch=made.producer_epoch)
        return not any((*codes, int(made.error_code)))

    eventually(is_ready, what="transactional ids have a coordinator")
    member.side.transcript[:] = before
    return found


@pytest.mark.parametrize(
    "asking",
    [
        unknown_kinds_of_coordinators,
        configs_that_are_there_and_not,
        a_cursor_without_a_name,
        negative_leader_epochs,
        groups_without_a_name_or_a_topic,
        times_beyond_those_of_records,
        offsets_to_delete_that_are_none,
        leader_epochs_that_never_were,
        coordinators_of_nothing,
        fetches_with_odd_limits,
        produce_with_odd_acks_and_timeouts,
        sessions_at_their_limits,
        rebalances_without_time,
        transactions_without_partitions,
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
    """Two topics have their leaders, one with the name of the group, and groups are coordinated."""
    member = side.member("first")
    topics = (TOPIC, side.group)
    for topic in topics:
        member.client.ask(create_topic(topic))

    def is_ready() -> bool:
        read = read_fetched(member.client.ask(fetch({(topic, 0): 0 for topic in topics}, min_bytes=0)))
        member.ask("find_coordinator", 0, key=side.group)
        (group,) = member.describe(5).groups
        return not any(read[topic, 0].error for topic in topics) and int(group.error_code) == 0

    eventually(is_ready, what=f"{side.broker.name} serves topics and groups")
    side.transcript.clear()
