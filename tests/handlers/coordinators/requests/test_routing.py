"""Requests are cut by internal partition, answers put together again: nothing is lost, doubled or asked elsewhere."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioError

from kafkad.core.coordinator.partitioning import partition_for
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import TransactionDescription, TransactionsDescribed
from kafkad.handlers.coordinators.requests import routing
from kafkad.handlers.coordinators.requests.routing import Batched, Single
from kafkad.handlers.coordinators.transactions import describe_transactions
from kafkad.wire import api_table
from kafkad.wire.primitives import MalformedRequest
from tests.handlers.kio_calls import KioApi

PARTITIONS = 50
GROUPS = tuple(f"group-{number}" for number in range(40))


def split(key: int, name: str, version: int, body: memoryview, partitions: int = PARTITIONS) -> list[routing.Piece]:
    return routing.split(key, name, version, body, partitions)


def packed(piece: routing.Piece) -> bytes:
    return piece.body() if callable(piece.body) else piece.body


@pytest.mark.parametrize("version", range(7))
def test_groups_that_are_described_go_to_their_partitions(version: int) -> None:
    api = KioApi("describe_groups", version)
    body = api.request(groups=GROUPS, include_authorized_operations=True)
    pieces = split(api_table.DESCRIBE_GROUPS, "describe_groups", version, body)
    seen: list[str] = []
    for piece in pieces:
        request = api.read_request(packed(piece))
        assert {partition_for(group, PARTITIONS) for group in request.groups} == {piece.partition}
        assert getattr(request, "include_authorized_operations", True) is True
        seen += request.groups
    assert sorted(seen) == sorted(GROUPS)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_a_fetch_of_one_group_goes_on_as_it_came(version: int) -> None:
    api = KioApi("offset_fetch", version)
    group = api.part("OffsetFetchRequestGroup", group_id="g", topics=None, member_id=None, member_epoch=-1)
    body = api.request(groups=(group,), require_stable=True)
    assert split(api_table.OFFSET_FETCH, "offset_fetch", version, body) == [
        (partition_for("g", PARTITIONS), bytes(body))
    ]


@pytest.mark.parametrize(
    ("key", "name", "version", "values"),
    [
        (api_table.HEARTBEAT, "heartbeat", 4, {"group_id": "ké", "generation_id": 1, "member_id": "m"}),
        (api_table.HEARTBEAT, "heartbeat", 0, {"group_id": "ké", "generation_id": 1, "member_id": "m"}),
        (api_table.OFFSET_FETCH, "offset_fetch", 7, {"group_id": "ké", "topics": None}),
        (api_table.OFFSET_FETCH, "offset_fetch", 1, {"group_id": "ké", "topics": ()}),
    ],
)
def test_the_key_of_a_single_request_is_only_looked_at(key: int, name: str, version: int, values: Any) -> None:
    body = KioApi(name, version).request(**values)
    assert split(key, name, version, body) == [(partition_for("ké", PARTITIONS), bytes(body))]


@pytest.mark.parametrize("version", range(6))
def test_offsets_in_a_transaction_go_to_their_group(version: int) -> None:
    api = KioApi("txn_offset_commit", version)
    body = api.request(transactional_id="t", group_id="g", producer_id=1, producer_epoch=0, topics=())
    is_flexible = version >= 3
    assert routing.peek(body, is_flexible, 1) == "g"
    assert routing.shape_of(api_table.TXN_OFFSET_COMMIT, version) == Single(1, "partitions")


def test_shapes_depend_on_the_version() -> None:
    assert isinstance(routing.shape_of(api_table.OFFSET_FETCH, 7), Single)
    assert isinstance(routing.shape_of(api_table.OFFSET_FETCH, 8), Batched)
    assert isinstance(routing.shape_of(api_table.ADD_PARTITIONS_TO_TXN, 3), Single)
    assert isinstance(routing.shape_of(api_table.ADD_PARTITIONS_TO_TXN, 4), Batched)
    assert isinstance(routing.shape_of(api_table.LIST_GROUPS, 5), routing.AllShards)


def test_before_there_is_an_internal_topic_nobody_is_responsible() -> None:
    body = KioApi("heartbeat", 0).request(group_id="g", generation_id=1, member_id="m")
    assert [piece.partition for piece in split(api_table.HEARTBEAT, "heartbeat", 0, body, 0)] == [-1]
    api = KioApi("describe_groups", 5)
    pieces = split(
        api_table.DESCRIBE_GROUPS,
        "describe_groups",
        5,
        api.request(groups=GROUPS, include_authorized_operations=False),
        0,
    )
    assert {piece.partition for piece in pieces} == {-1}
    assert split(api_table.LIST_GROUPS, "list_groups", 5, KioApi("list_groups", 5).request(), 0) == []


def test_answers_become_one() -> None:
    api = KioApi("delete_groups", 2)
    answers = [
        api.response(
            throttle_time=timedelta(),
            results=(api.response_part("DeletableGroupResult", group_id=group, error_code=KioError.none),),
        )
        for group in GROUPS[:3]
    ]
    merged = api.read(routing.merge(api_table.DELETE_GROUPS, "delete_groups", 2, answers))
    assert [row.group_id for row in merged.results] == list(GROUPS[:3])


@pytest.mark.parametrize("version", range(6))
def test_a_list_is_as_wrong_as_its_first_wrong_part(version: int) -> None:
    api = KioApi("list_groups", version)

    def part(code: KioError, *groups: str) -> bytes:
        rows = (
            api.response_part("ListedGroup", group_id=group, protocol_type="", group_state="", group_type="")
            for group in groups
        )
        return api.response(throttle_time=timedelta(), error_code=code, groups=tuple(rows))

    good, bad = part(KioError.none, "a"), part(KioError.coordinator_load_in_progress)
    both = api.read(routing.merge(api_table.LIST_GROUPS, "list_groups", version, [good, part(KioError.none, "b")]))
    assert [row.group_id for row in both.groups] == ["a", "b"]
    wrong = api.read(routing.merge(api_table.LIST_GROUPS, "list_groups", version, [good, bad]))
    assert (wrong.error_code, wrong.groups) == (KioError.coordinator_load_in_progress, ())


@pytest.mark.parametrize("version", range(6))
def test_where_nobody_was_asked_the_list_is_empty(version: int) -> None:
    reply = KioApi("list_groups", version).read(routing.merge(api_table.LIST_GROUPS, "list_groups", version, []))
    assert (reply.error_code, reply.groups) == (KioError.none, ())


def test_what_is_lost_is_worth_another_try() -> None:
    assert routing.code_when_lost(api_table.JOIN_GROUP) == ErrorCode.NOT_COORDINATOR
    assert routing.code_when_lost(api_table.LIST_GROUPS) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x05ab", b"\xff\xff"])
def test_a_key_that_is_cut_off_is_malformed(body: bytes) -> None:
    if body == b"\xff\xff":
        (piece,) = split(api_table.HEARTBEAT, "heartbeat", 0, memoryview(body))
        assert piece.partition == partition_for("", PARTITIONS), "null goes on, and is refused by who reads it all"
        return
    with pytest.raises(MalformedRequest):
        split(api_table.HEARTBEAT, "heartbeat", 0, memoryview(body))


@pytest.mark.parametrize("version", range(10))
def test_of_a_large_join_that_waits_only_what_a_refusal_needs_is_kept(version: int) -> None:
    api = KioApi("join_group", version)
    protocol = api.part("JoinGroupRequestProtocol", name="range", metadata=bytes(1_000_000))
    values = {
        "group_id": "g",
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=10),
        "member_id": "m",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "reason": None,
    }
    body = bytes(api.request(**values, protocols=(protocol,)))
    kept = routing.body_to_keep(api_table.JOIN_GROUP, "join_group", version, routing.Piece(0, body))
    assert kept is not None
    assert len(kept) < 200
    assert api.read_request(kept) == api.read_request(bytes(api.request(**values, protocols=())))
    small = bytes(api.request(**values, protocols=()))
    assert routing.body_to_keep(api_table.JOIN_GROUP, "join_group", version, routing.Piece(0, small)) is small


def test_descriptions_of_transactions_become_one_though_nothing_has_begun_in_them() -> None:
    """kio can't read the start time -1 that says so: the answers of several shards are joined as bytes."""
    rows = tuple(TransactionDescription(transactional_id=each, start_ms=-1) for each in ("first", "second", "third"))
    answers = [describe_transactions.pack(TransactionsDescribed(transactions=(row,)), 0) for row in rows]
    merged = routing.merge(api_table.DESCRIBE_TRANSACTIONS, "describe_transactions", 0, answers)
    assert merged == describe_transactions.pack(TransactionsDescribed(transactions=rows), 0)
