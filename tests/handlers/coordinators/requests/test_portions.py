"""A commit or a fetch of very many offsets goes on in portions, and its answer is that of the whole."""

from typing import Any
from uuid import UUID

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.types import NO_TOPIC_ID
from kafkad.handlers.coordinators.requests import routing
from kafkad.handlers.coordinators.requests.portions import PORTION
from kafkad.wire import api_table
from kafkad.wire.messages.offset_replies import pack_commit, pack_fetch, pack_txn_commit
from tests.handlers.kio_calls import KioApi

SIZES = (1, 2 * PORTION + 7, 0, *([1] * 900), PORTION - 1, 300)
"""Partitions of each topic."""
Rows = list[tuple[str, UUID, list[int]]]


def packed(piece: routing.Piece) -> bytes:
    return piece.body() if callable(piece.body) else piece.body


def asked(topics: Any, field: str) -> Rows:
    """(topic, id, partitions) of a request."""
    return [
        (
            getattr(topic, "name", ""),
            getattr(topic, "topic_id", None) or NO_TOPIC_ID,
            [getattr(each, "partition_index", each) for each in getattr(topic, field)],
        )
        for topic in topics
    ]


def told(topics: Any) -> dict[tuple[str, UUID], list[int]]:
    """What a response says, topic by topic however often it names one."""
    found: dict[tuple[str, UUID], list[int]] = {}
    for topic in topics:
        key = getattr(topic, "name", ""), getattr(topic, "topic_id", None) or NO_TOPIC_ID
        found.setdefault(key, []).extend(each.partition_index for each in topic.partitions)
    return found


def names_of(number: int, *, by_id: bool) -> dict[str, Any]:
    return {"topic_id": UUID(int=number + 1)} if by_id else {"name": f"topic-{number}"}


@pytest.mark.parametrize("version", range(2, 11))
def test_a_large_commit_is_made_in_portions(version: int) -> None:
    api = KioApi("offset_commit", version)
    topics = tuple(
        api.part(
            "OffsetCommitRequestTopic",
            **names_of(number, by_id=version >= 10),
            partitions=tuple(
                api.part(
                    "OffsetCommitRequestPartition",
                    partition_index=index,
                    committed_offset=index,
                    committed_leader_epoch=-1,
                    commit_timestamp=-1,
                    committed_metadata="",
                )
                for index in range(size)
            ),
        )
        for number, size in enumerate(SIZES)
    )
    body = api.request(
        group_id="g", generation_id_or_member_epoch=3, member_id="m", group_instance_id=None, topics=topics
    )
    pieces = routing.split(api_table.OFFSET_COMMIT, "offset_commit", version, body, 50)
    requests = [api.read_request(packed(piece)) for piece in pieces]
    assert len({piece.partition for piece in pieces}) == 1
    assert {(each.group_id, each.member_id, each.generation_id_or_member_epoch) for each in requests} == {("g", "m", 3)}
    assert all(sum(1 + len(topic.partitions) for topic in each.topics) <= PORTION for each in requests)
    whole = asked(topics, "partitions")
    rows = [asked(each.topics, "partitions") for each in requests]
    assert [index for part in rows for _, _, indexes in part for index in indexes] == [
        index for _, _, indexes in whole for index in indexes
    ]
    answers = [
        pack_commit(version, [(name, key, [(at, 0) for at in some]) for name, key, some in part]) for part in rows
    ]
    merged = routing.merge(api_table.OFFSET_COMMIT, "offset_commit", version, answers)
    alone = pack_commit(version, [(name, key, [(at, 0) for at in some]) for name, key, some in whole])
    assert told(api.read(merged).topics) == told(api.read(alone).topics)


@pytest.mark.parametrize("version", range(6))
def test_a_large_commit_in_a_transaction_is_made_in_portions(version: int) -> None:
    api = KioApi("txn_offset_commit", version)
    topics = tuple(
        api.part(
            "TxnOffsetCommitRequestTopic",
            name=f"topic-{number}",
            partitions=tuple(
                api.part(
                    "TxnOffsetCommitRequestPartition",
                    partition_index=index,
                    committed_offset=index,
                    committed_leader_epoch=-1,
                    committed_metadata="of some length",
                )
                for index in range(size)
            ),
        )
        for number, size in enumerate(SIZES)
    )
    body = api.request(
        transactional_id="t",
        group_id="g",
        producer_id=1,
        producer_epoch=2,
        generation_id=3,
        member_id="m",
        topics=topics,
    )
    pieces = routing.split(api_table.TXN_OFFSET_COMMIT, "txn_offset_commit", version, body, 50)
    requests = [api.read_request(packed(piece)) for piece in pieces]
    assert len(pieces) > 1
    assert len({piece.partition for piece in pieces}) == 1
    assert {(each.transactional_id, each.group_id, each.producer_id) for each in requests} == {("t", "g", 1)}
    assert all(sum(1 + len(topic.partitions) for topic in each.topics) <= PORTION for each in requests)
    rows = [asked(each.topics, "partitions") for each in requests]
    answers = [
        pack_txn_commit(version, [(name, key, [(at, 0) for at in some]) for name, key, some in part]) for part in rows
    ]
    merged = routing.merge(api_table.TXN_OFFSET_COMMIT, "txn_offset_commit", version, answers)
    whole = [(name, key, [(at, 0) for at in some]) for name, key, some in asked(topics, "partitions")]
    assert told(api.read(merged).topics) == told(api.read(pack_txn_commit(version, whole)).topics)


def fetched(rows: Rows) -> list[tuple[str, UUID, list[tuple[int, int, int, str, int]]]]:
    return [(name, key, [(index, 5, -1, "", 0) for index in some]) for name, key, some in rows]


@pytest.mark.parametrize("version", range(1, 11))
def test_a_large_fetch_is_answered_in_portions(version: int) -> None:
    api = KioApi("offset_fetch", version)
    message = "OffsetFetchRequestTopic" if version < 8 else "OffsetFetchRequestTopics"
    topics = tuple(
        api.part(message, **names_of(number, by_id=version >= 10), partition_indexes=tuple(range(size)))
        for number, size in enumerate((*SIZES, 6 * PORTION))
    )
    if version < 8:
        body = api.request(group_id="g", topics=topics, require_stable=False)
    else:
        groups = [
            api.part("OffsetFetchRequestGroup", group_id=name, member_id=None, member_epoch=-1, topics=some)
            for name, some in (("small", topics[:1]), ("g", topics), ("h", topics))
        ]
        body = api.request(groups=tuple(groups), require_stable=False)
    pieces = routing.split(api_table.OFFSET_FETCH, "offset_fetch", version, body, 1)
    answers, whole = [], []
    for request in (api.read_request(packed(piece)) for piece in pieces):
        there = [request] if version < 8 else request.groups
        assert sum(1 + len(topic.partition_indexes) for each in there for topic in each.topics) <= PORTION
        groups_there = [(each.group_id, fetched(asked(each.topics, "partition_indexes")), 0) for each in there]
        answers.append(pack_fetch(version, groups_there))
        whole += groups_there
    assert len(answers) > 2
    response = api.read(routing.merge(api_table.OFFSET_FETCH, "offset_fetch", version, answers))
    if version < 8:
        assert told(response.topics) == told_of(asked(topics, "partition_indexes"))
        return
    assert [group.group_id for group in response.groups] == ["small", "g", "h"]
    assert told(response.groups[1].topics) == told_of(asked(topics, "partition_indexes"))


def told_of(rows: Rows) -> dict[tuple[str, UUID], list[int]]:
    return {(name, key): some for name, key, some in rows}


@pytest.mark.parametrize("version", [2, 5, 7, 8, 10])
def test_an_error_of_the_group_in_one_portion_is_the_answer(version: int) -> None:
    rows: Rows = [("t", UUID(int=1), [0, 1])]
    good = pack_fetch(version, [("g", fetched(rows), 0)])
    bad = pack_fetch(version, [("g", [], ErrorCode.NOT_COORDINATOR)])
    assert routing.merge(api_table.OFFSET_FETCH, "offset_fetch", version, [good, bad, good]) == bad
