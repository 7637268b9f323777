"""KIP-848 groups, one test for each rule; Apache Kafka's codes and texts where a client sees them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.groups.consumer.assignors import AssigningMember, GroupAssignor
from kafkad.core.groups.consumer.messages import ConsumerHeartbeat
from tests.core.groups.consumer_bed import GROUP, REBALANCE_MS, Client, ConsumerBed, settle
from tests.core.groups.offsets_bed import ORDERS, PAYMENTS

ALL_ORDERS = {ORDERS: frozenset(range(4))}


def test_the_first_member_gets_everything_at_once() -> None:
    bed = ConsumerBed()
    client = Client(bed, "a", "orders")
    heard = client.beat()
    assert (heard.member_epoch, heard.assignment, heard.heartbeat_interval_ms) == (2, ALL_ORDERS, 5_000)
    assert bed.consumers.state_name == "Stable"


def test_nothing_new_is_not_said_again() -> None:
    client = Client(ConsumerBed(), "a", "orders")
    client.beat()
    assert client.beat().assignment is None


def test_a_second_member_gets_its_part_when_the_first_has_given_it_up() -> None:
    bed = ConsumerBed()
    first, second = Client(bed, "a", "orders"), Client(bed, "b", "orders")
    first.beat()
    assert second.beat().assignment == {}, "the first has it all"
    assert first.beat().assignment is not None
    assert second.beat().assignment is None, "the first was told, and has not said that it is done"
    assert (first.size, second.size) == (2, 0)
    first.beat()
    second.beat()
    assert (first.size, second.size) == (2, 2)
    assert not set(first.asked[ORDERS]) & set(second.asked[ORDERS])


def test_a_member_that_does_not_give_up_in_time_is_out() -> None:
    bed = ConsumerBed()
    first, second = Client(bed, "a", "orders"), Client(bed, "b", "orders")
    first.beat()
    second.beat()
    first.beat()
    first.is_slow = True
    for _ in range(REBALANCE_MS // 5_000):
        bed.advance(5_000)
        first.beat()
        second.beat()
    settle(second)
    assert second.asked == ALL_ORDERS
    assert first.last.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_says_nothing_for_a_session_is_out() -> None:
    bed = ConsumerBed()
    first, second = Client(bed, "a", "orders"), Client(bed, "b", "orders")
    settle(first, second)
    for _ in range(9):
        bed.advance(5_001)
        second.beat()
    settle(second)
    assert second.asked == ALL_ORDERS
    first.beat()
    assert first.last.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_frees_what_it_had() -> None:
    bed = ConsumerBed()
    first, second = Client(bed, "a", "orders"), Client(bed, "b", "orders")
    settle(first, second)
    heard = first.leave()
    assert (heard.code, heard.member_id, heard.member_epoch) == (ErrorCode.NONE, "a", -1)
    settle(second)
    assert second.asked == ALL_ORDERS
    second.leave()
    assert bed.consumers.state_name == "Empty"


def test_an_answer_that_was_lost_is_given_again() -> None:
    bed = ConsumerBed()
    client = Client(bed, "a", "orders")
    client.beat(lose_answer=True)
    assert client.beat().assignment == ALL_ORDERS
    assert client.epoch == 2


@pytest.mark.parametrize("epoch", [7, 1])
def test_an_epoch_that_is_not_the_members_is_fenced(epoch: int) -> None:
    bed = ConsumerBed()
    first, second = Client(bed, "a", "orders"), Client(bed, "b", "payments")
    settle(first, second, first)
    first.subscribe("orders", "payments")
    settle(first, second, first)
    assert first.epoch not in (1, 7)
    heard = bed.say(ConsumerHeartbeat(group_id=GROUP, member_id="a", member_epoch=epoch, owned={}))
    assert heard.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_change_of_the_subscription_is_a_new_epoch() -> None:
    bed = ConsumerBed()
    client = Client(bed, "a", "orders")
    settle(client)
    client.subscribe("payments")
    settle(client)
    assert client.asked == {PAYMENTS: frozenset({0, 1})}


def test_a_topic_that_comes_or_grows_is_found_with_the_next_heartbeat() -> None:
    bed = ConsumerBed()
    client = Client(bed, "a", "orders", "later")
    settle(client)
    assert client.asked == ALL_ORDERS
    bed.topics.by_name["later"] = (PAYMENTS, 1)
    bed.topics.by_name["orders"] = (ORDERS, 5)
    bed.topics.version += 1
    settle(client)
    assert client.asked == {ORDERS: frozenset(range(5)), PAYMENTS: frozenset({0})}


def test_partitions_are_divided_once_in_the_interval_by_the_first_heartbeat_after_it() -> None:
    bed = ConsumerBed()
    bed.divide_once_in(1_000)
    first, second, third = (Client(bed, name, "orders") for name in "abc")
    assert first.beat().assignment == ALL_ORDERS, "nothing was divided before"
    bed.advance(400)
    assert (second.beat().member_epoch, second.last.assignment) == (first.epoch, {})
    bed.advance(599)
    assert (third.beat().member_epoch, third.last.assignment) == (first.epoch, {})
    assert first.beat().assignment is None
    group = bed.consumers
    assert (group.state_name, group.epoch, group.assignment_epoch) == ("Assigning", 4, 2)
    bed.crash()
    bed.advance(1)
    assert first.beat().assignment is not None, "for both that came, at once"
    assert (bed.consumers.epoch, bed.consumers.assignment_epoch) == (4, 4)
    settle(first, second, third)
    assert sorted((first.size, second.size, third.size)) == [1, 1, 2]


def test_new_epochs_are_counted_but_not_those_of_members_that_go() -> None:
    bed = ConsumerBed()
    first, second = Client(bed, "a", "orders"), Client(bed, "b", "orders")
    settle(first, second)
    assert bed.rebalances == 2
    second.leave()
    settle(first)
    assert (bed.rebalances, bed.consumers.epoch) == (2, 4)
    first.subscribe("payments")
    settle(first)
    assert bed.rebalances == 3


def test_a_group_has_an_interval_of_its_own() -> None:
    bed = ConsumerBed()
    bed.divide_once_in(1_000)
    of_group = {GROUP: {"consumer.assignment.interval.ms": "0"}}
    bed.shard.configure(replace(bed.consumer_config, group_configs=of_group))
    first, second = Client(bed, "a", "orders"), Client(bed, "b", "orders")
    settle(first, second)
    assert (first.size, second.size) == (2, 2)


def test_what_a_member_does_not_want_any_more_it_gives_up_before_partitions_are_divided() -> None:
    bed = ConsumerBed()
    bed.divide_once_in(1_000)
    client = Client(bed, "a", "orders", "payments")
    settle(client)
    client.subscribe("payments")
    assert client.beat().assignment == {PAYMENTS: frozenset({0, 1})}
    assert (client.epoch, bed.consumers.state_name) == (2, "Assigning")
    client.beat()
    assert not bed.consumers.is_owned(ORDERS, 0)
    client.subscribe("orders", "payments")
    assert client.beat().assignment == {PAYMENTS: frozenset({0, 1})}
    bed.advance(1_000)
    assert client.beat().assignment == {**ALL_ORDERS, PAYMENTS: frozenset({0, 1})}


def test_a_member_that_was_told_to_begin_anew_keeps_what_it_has() -> None:
    bed = ConsumerBed()
    first, second = Client(bed, "a", "orders"), Client(bed, "b", "orders")
    settle(first, second)
    had, epoch = first.asked, first.epoch
    again = Client(bed, "a", "orders")
    assert (again.beat().assignment, again.epoch) == (had, epoch)


def test_a_member_may_join_without_a_topic_and_gets_its_own_later() -> None:
    client = Client(ConsumerBed(), "a")
    heard = client.beat()
    assert (heard.code, heard.member_epoch, heard.assignment) == (ErrorCode.NONE, 1, {})
    client.subscribe("orders")
    settle(client)
    assert client.asked == ALL_ORDERS


def test_nobody_asks_for_a_group_without_a_name() -> None:
    described = ConsumerBed().shard.consumer.describe("")
    assert (described.code, described.message) == (ErrorCode.INVALID_GROUP_ID, None)


def test_a_pattern_finds_topics_by_their_whole_names() -> None:
    bed = ConsumerBed()
    client = Client(bed, "a", regex="ord.*|pay")
    settle(client)
    assert client.asked == ALL_ORDERS
    bed.topics.by_name["ordinary"] = (PAYMENTS, 1)
    bed.topics.version += 1
    settle(client)
    assert client.asked == {**ALL_ORDERS, PAYMENTS: frozenset({0})}
    assert bed.consumers.is_subscribed("ordinary")
    bed.crash()
    settle(client)
    assert set(bed.consumers.patterns) == {"ord.*|pay"}
    client.leave()
    assert not bed.consumers.patterns


def test_a_pattern_that_is_none_is_refused() -> None:
    bed = ConsumerBed()
    heard = bed.say(
        ConsumerHeartbeat(group_id=GROUP, member_id="a", member_epoch=0, rebalance_timeout_ms=1, regex="(", owned={})
    )
    assert heard.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert heard.message is not None and heard.message.startswith("SubscribedTopicRegex `(` is not a valid")


def test_a_static_member_comes_back_to_what_it_had() -> None:
    bed = ConsumerBed()
    first, other = Client(bed, "a", "orders", instance_id="one"), Client(bed, "b", "orders")
    settle(first, other)
    had = first.asked
    first.leave(for_now=True)
    settle(other)
    assert other.size == 2, "nobody gets what it had"
    back = Client(bed, "c", "orders", instance_id="one")
    assert back.beat().assignment == had
    settle(back, other)
    assert other.size == 2
    assert set(bed.consumers.members) == {"b", "c"}


def test_a_static_member_that_is_there_is_not_replaced() -> None:
    bed = ConsumerBed()
    first = Client(bed, "a", "orders", instance_id="one")
    first.beat()
    second = Client(bed, "b", "orders", instance_id="one")
    assert second.beat().code is ErrorCode.UNRELEASED_INSTANCE_ID
    heard = bed.say(ConsumerHeartbeat(group_id=GROUP, member_id="b", member_epoch=1, instance_id="one", owned={}))
    assert heard.code is ErrorCode.FENCED_INSTANCE_ID
    heard = bed.say(ConsumerHeartbeat(group_id=GROUP, member_id="b", member_epoch=1, instance_id="two", owned={}))
    assert heard.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_is_out_after_its_session() -> None:
    bed = ConsumerBed()
    first, other = Client(bed, "a", "orders", instance_id="one"), Client(bed, "b", "orders")
    settle(first, other)
    first.leave(for_now=True)
    for _ in range(10):
        bed.advance(5_000)
        other.beat()
    settle(other)
    assert other.asked == ALL_ORDERS


def test_the_assignor_is_the_one_that_most_name() -> None:
    bed = ConsumerBed()
    clients = [Client(bed, name, "orders", "payments", assignor="range") for name in "ab"]
    clients.append(Client(bed, "c", "orders", "payments", assignor="uniform"))
    settle(*clients)
    assert bed.shard.consumer.describe(GROUP).assignor == "range"
    assert [client.size for client in clients] == [3, 2, 1]
    clients.append(Client(bed, "d", "orders", "payments", assignor="uniform"))
    settle(*clients)
    assert bed.shard.consumer.describe(GROUP).assignor == "uniform"


def test_an_assignor_that_is_configured_no_more_is_nobodys_choice() -> None:
    bed = ConsumerBed()
    client = Client(bed, "a", "orders", assignor="range")
    settle(client)
    assignors = {name: each for name, each in bed.consumer_config.assignors.items() if name != "range"}
    bed.consumer_config = replace(bed.consumer_config, assignors=assignors)
    bed.crash()
    another = Client(bed, "b", "payments")
    settle(another, client)
    assert bed.shard.consumer.describe(GROUP).assignor == "uniform"
    assert another.asked == {PAYMENTS: frozenset({0, 1})}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topics": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": ALL_ORDERS}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"assignor": "fair"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"member_epoch": 5}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_wrong_first_heartbeat_is_refused(change: dict[str, object], code: ErrorCode) -> None:
    right: dict[str, object] = {
        "group_id": GROUP,
        "member_id": "a",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1_000,
        "topics": ("orders",),
        "owned": {},
    }
    bed = ConsumerBed()
    assert bed.say(ConsumerHeartbeat(**(right | change))).code is code  # type: ignore[arg-type]
    assert len(bed.shard.groups) == 0
    assert bed.say(ConsumerHeartbeat(**right)).code is ErrorCode.NONE  # type: ignore[arg-type]


def test_version_0_leaves_the_member_id_to_the_broker() -> None:
    bed = ConsumerBed()
    heard = bed.say(
        ConsumerHeartbeat(
            group_id=GROUP,
            member_id="",
            member_epoch=0,
            version=0,
            rebalance_timeout_ms=1,
            topics=("orders",),
            owned={},
        )
    )
    assert heard.member_id in bed.consumers.members


def test_offsets_are_for_members_of_the_present_epoch() -> None:
    bed = ConsumerBed()
    client = Client(bed, "a", "orders")
    settle(client)
    group = bed.consumers
    group.check_offset_commit("a", None, client.epoch, is_transactional=False, version=9)
    group.check_offset_commit("", None, -1, is_transactional=True, version=5)
    group.check_offset_fetch("a", client.epoch)
    group.check_offset_fetch(None, -1)
    for epoch, member_id, version, code in (
        (client.epoch + 1, "a", 9, ErrorCode.STALE_MEMBER_EPOCH),
        (client.epoch, "b", 9, ErrorCode.UNKNOWN_MEMBER_ID),
        (client.epoch, "a", 8, ErrorCode.UNSUPPORTED_VERSION),
        (-1, "", 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(KafkaError) as refused:
            group.check_offset_commit(member_id, None, epoch, is_transactional=False, version=version)
        assert refused.value.code is code


def test_a_member_that_is_behind_commits_for_what_it_has_had_since_then() -> None:
    """KIP-1251: the heartbeat that tells it of its new epoch, and its commit, may cross."""
    bed = ConsumerBed()
    first, second = Client(bed, "a", "orders"), Client(bed, "b", "orders")
    settle(first, second)
    before, had = first.epoch, sorted(first.asked[ORDERS])
    second.leave()
    settle(first)
    bed.crash()
    check = bed.consumers.check_offset_commit("a", None, before, is_transactional=False, version=9)
    assert check is not None, "the member has a later epoch"
    for partition in had:
        check(ORDERS, partition)
    for partition in set(range(4)) - set(had):
        with pytest.raises(KafkaError) as refused:
            check(ORDERS, partition)
        assert refused.value.code is ErrorCode.STALE_MEMBER_EPOCH
    with pytest.raises(KafkaError):
        check(PAYMENTS, 0)


def test_a_group_with_members_is_not_deleted_and_an_empty_one_leaves_nothing() -> None:
    bed = ConsumerBed()
    client = Client(bed, "a", "orders")
    client.beat()
    token = bed.ask(lambda asked: bed.shard.delete_groups([GROUP], asked.token))
    assert bed.answers[token] == [(GROUP, ErrorCode.NON_EMPTY_GROUP)]
    client.leave()
    bed.ask(lambda asked: bed.shard.delete_groups([GROUP], asked.token))
    assert bed.shard.groups.get(GROUP) is None
    bed.crash()
    assert bed.shard.groups.get(GROUP) is None


def test_an_empty_classic_group_becomes_one_of_the_protocol() -> None:
    bed = ConsumerBed()
    member_id, _ = bed.member()
    bed.advance(10_000)
    bed.leave(member_id)
    client = Client(bed, "a", "orders", group_id="orders-service")
    assert client.beat().assignment == ALL_ORDERS
    bed.crash()
    client.beat()
    assert client.last.code is ErrorCode.NONE
    assert client.epoch == 2


def test_partitions_that_came_while_the_log_refused_a_heartbeat_are_assigned_by_the_next_one() -> None:
    bed = ConsumerBed()
    client = Client(bed, "a", "orders")
    settle(client)
    bed.topics.by_name["orders"] = (ORDERS, 6)
    bed.topics.version += 1
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    client.try_beat()
    bed.log.refusal = None
    settle(client)
    assert client.asked == {ORDERS: frozenset(range(6))}


def test_a_member_whose_heartbeats_the_log_refuses_is_alive() -> None:
    bed = ConsumerBed()
    client = Client(bed, "a", "orders")
    settle(client)
    bed.log.refusal = ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(20):
        bed.topics.by_name["orders"] = (ORDERS, bed.topics.by_name["orders"][1] + 1)
        bed.topics.version += 1
        bed.advance(5_000)
        client.try_beat()
    bed.log.refusal = None
    bed.advance(1_000)
    assert list(bed.consumers.members) == ["a"]


def test_a_member_whose_session_ends_while_the_log_refuses_goes_when_it_takes_records_again() -> None:
    bed = ConsumerBed()
    gone, staying = Client(bed, "a", "orders"), Client(bed, "b", "orders")
    settle(gone, staying)
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(12):
        bed.advance(5_000)
        staying.try_beat()
    bed.log.refusal = None
    bed.advance(1_000)
    settle(staying)
    assert staying.asked == ALL_ORDERS


class _Breaking:
    """Divides nothing when told so."""

    name = "breaking"

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.answer: Any = {}

    def assign(self, members: Mapping[str, AssigningMember], partitions: Mapping[UUID, int]) -> Any:
        if self.failure is not None:
            raise self.failure
        return self.answer


def _bed_with(assignor: _Breaking) -> ConsumerBed:
    bed = ConsumerBed()
    assignors: dict[str, GroupAssignor] = {**bed.consumer_config.assignors, assignor.name: assignor}
    bed.consumer_config = replace(bed.consumer_config, assignors=assignors)
    bed.crash()
    return bed


@pytest.mark.parametrize(
    ("failure", "answer"),
    [
        (ValueError("no such luck"), {}),
        (RecursionError("deep"), {}),
        (None, None),
        (None, {"a": {ORDERS: [1.5]}}),
        (None, {"a": 7}),
        (None, {"nobody": {ORDERS: frozenset({0})}}),
        (None, {"a": {UUID(int=99): frozenset({0})}}),
        (None, {"a": {ORDERS: frozenset({4})}}),
    ],
)
def test_an_assignor_that_fails_costs_the_heartbeat_that_asked_for_it_and_is_logged(
    failure: Exception | None, answer: Any
) -> None:
    assignor = _Breaking()
    bed = _bed_with(assignor)
    assignor.failure, assignor.answer = failure, answer
    first = ConsumerHeartbeat(
        group_id=GROUP, member_id="a", member_epoch=0, rebalance_timeout_ms=1, topics=("orders",), owned={},
        assignor="breaking",
    )  # fmt: skip
    heard = bed.say(first)
    assert heard.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert heard.message is not None
    assert heard.message.startswith("Failed to compute a new target assignment for epoch 2: assignor 'breaking' ")
    (line,) = bed.lines
    assert line.startswith(f"group {GROUP}: no new assignment for epoch 2: assignor 'breaking' ")
    assert bed.written() == []
    assignor.failure, assignor.answer = None, {"a": {ORDERS: (0, 1)}}
    assert bed.say(first).assignment == {ORDERS: frozenset({0, 1})}


def test_an_assignor_that_fails_for_a_classic_member_of_the_group_is_logged_too() -> None:
    assignor = _Breaking()
    bed = _bed_with(assignor)
    assignor.answer = {}
    Client(bed, "a", "orders", assignor="breaking").beat()
    assignor.failure = ValueError("no such luck")
    token = bed.join(group_id=GROUP, version=3)
    assert bed.joined(token).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "ValueError('no such luck')" in bed.lines[-1]
