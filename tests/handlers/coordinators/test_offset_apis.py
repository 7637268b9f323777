"""Every version of OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit, written and read by kio."""

from datetime import timedelta
from typing import Any

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.records import GroupRecord
from tests.core.coordinator.memory_log import Bed
from tests.core.groups.offsets_bed import HOUR_MS, ORDERS, offsets_bed
from tests.handlers.coordinators.offset_calls import call, refuse
from tests.handlers.kio_calls import KioApi

COMMITS = range(2, 11)
FETCHES = range(1, 11)
TXN_COMMITS = range(6)
_LONG = "ö" * 200


def _commit_values(
    api: KioApi, offset: int, *, metadata: str | None = None, leader_epoch: int = -1, partition: int = 1
) -> dict[str, Any]:
    row = api.part(
        f"{_request(api)}Partition",
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        committed_metadata=metadata,
    )
    topic = api.part(f"{_request(api)}Topic", name="orders", topic_id=ORDERS, partitions=(row,))
    return {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "generation_id": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time": timedelta(milliseconds=-1),
        "topics": (topic,),
        "transactional_id": "tx",
        "producer_id": 70,
        "producer_epoch": 0,
    }


def _request(api: KioApi) -> str:
    return "TxnOffsetCommitRequest" if hasattr(api._request, "TxnOffsetCommitRequest") else "OffsetCommitRequest"


def _fetch_values(api: KioApi, *partitions: int, stable: bool = False, everything: bool = False) -> dict[str, Any]:
    name = "OffsetFetchRequestTopics" if api.version >= 8 else "OffsetFetchRequestTopic"
    topic = api.part(name, name="orders", topic_id=ORDERS, partition_indexes=partitions)
    topics = None if everything else (topic,)
    values: dict[str, Any] = {"group_id": "g", "topics": topics, "require_stable": stable}
    if api.version >= 8:
        group = {"group_id": "g", "topics": topics, "member_id": None, "member_epoch": -1}
        values["groups"] = (api.part("OffsetFetchRequestGroup", **group),)
    return values


def _rows(response: Any) -> list[Any]:
    """The partitions of the one topic, in the one group."""
    (group,) = response.groups if hasattr(response, "groups") else (response,)
    (topic,) = group.topics
    return list(topic.partitions)


def _committed(bed: Bed[GroupRecord], offset: int, **fields: Any) -> None:
    api = KioApi("offset_commit", 9)
    response = call(bed, api, "offset_commit", **_commit_values(api, offset, **fields))
    assert [row.error_code for row in _rows(response)] == [ErrorCode.NONE]


@pytest.mark.parametrize("version", COMMITS)
def test_commit_of_every_version_is_kept(version: int) -> None:
    bed, api = offsets_bed(), KioApi("offset_commit", version)
    values = _commit_values(api, 2**40, metadata=_LONG, leader_epoch=9)
    response = call(bed, api, "offset_commit", **values)
    assert [(row.partition_index, row.error_code) for row in _rows(response)] == [(1, ErrorCode.NONE)]
    assert getattr(response.topics[0], "name", ORDERS) == ("orders" if version < 10 else ORDERS)
    fetch = KioApi("offset_fetch", 8)
    (row,) = _rows(call(bed, fetch, "offset_fetch", **_fetch_values(fetch, 1)))
    assert (row.committed_offset, row.metadata) == (2**40, _LONG)
    assert row.committed_leader_epoch == (9 if version >= 6 else -1)


@pytest.mark.parametrize("version", COMMITS)
def test_commit_without_metadata_has_empty_metadata(version: int) -> None:
    bed, api = offsets_bed(), KioApi("offset_commit", version)
    call(bed, api, "offset_commit", **_commit_values(api, 3))
    fetch = KioApi("offset_fetch", 8)
    (row,) = _rows(call(bed, fetch, "offset_fetch", **_fetch_values(fetch, 1)))
    assert (row.committed_offset, row.metadata) == (3, "")


@pytest.mark.parametrize("version", [2, 3, 4])
def test_retention_time_of_old_versions_is_obeyed(version: int) -> None:
    bed, api = offsets_bed(), KioApi("offset_commit", version)
    values = _commit_values(api, 3) | {"retention_time": timedelta(milliseconds=HOUR_MS)}
    call(bed, api, "offset_commit", **values)
    bed.advance(2 * HOUR_MS)
    assert bed.shard.offsets.count == 0


@pytest.mark.parametrize("version", COMMITS)
def test_refused_commit_says_so_of_every_partition(version: int) -> None:
    api = KioApi("offset_commit", version)
    response = refuse(api, "offset_commit", ErrorCode.NOT_COORDINATOR, **_commit_values(api, 3))
    assert [(row.partition_index, row.error_code) for row in _rows(response)] == [(1, ErrorCode.NOT_COORDINATOR)]


@pytest.mark.parametrize("version", FETCHES)
def test_fetch_of_every_version_tells_what_is_committed_and_what_not(version: int) -> None:
    bed, api = offsets_bed(), KioApi("offset_fetch", version)
    _committed(bed, 77, metadata=_LONG, leader_epoch=4)
    response = call(bed, api, "offset_fetch", **_fetch_values(api, 1, 3))
    rows = [(row.partition_index, row.committed_offset, row.metadata, row.error_code) for row in _rows(response)]
    assert rows == [(1, 77, _LONG, ErrorCode.NONE), (3, -1, "", ErrorCode.NONE)]
    if version >= 5:
        assert [row.committed_leader_epoch for row in _rows(response)] == [4, -1]


@pytest.mark.parametrize("version", FETCHES[1:])
def test_fetch_of_everything_names_all_topics(version: int) -> None:
    bed, api = offsets_bed(), KioApi("offset_fetch", version)
    _committed(bed, 77)
    (row,) = _rows(call(bed, api, "offset_fetch", **_fetch_values(api, everything=True)))
    assert (row.partition_index, row.committed_offset) == (1, 77)


@pytest.mark.parametrize("version", FETCHES[6:])
def test_fetch_that_wants_stable_offsets_is_told_of_transactions(version: int) -> None:
    bed, api, txn = offsets_bed(), KioApi("offset_fetch", version), KioApi("txn_offset_commit", 3)
    call(bed, txn, "txn_offset_commit", **_commit_values(txn, 5))
    for stable, code in ((True, ErrorCode.UNSTABLE_OFFSET_COMMIT), (False, ErrorCode.NONE)):
        (row,) = _rows(call(bed, api, "offset_fetch", **_fetch_values(api, 1, stable=stable)))
        assert (row.committed_offset, row.error_code) == (-1, code)


@pytest.mark.parametrize("version", FETCHES)
def test_refused_fetch_says_so_where_the_version_can(version: int) -> None:
    api = KioApi("offset_fetch", version)
    response = refuse(api, "offset_fetch", ErrorCode.NOT_COORDINATOR, **_fetch_values(api, 1, 3))
    if version == 1:
        assert [row.error_code for row in _rows(response)] == [ErrorCode.NOT_COORDINATOR] * 2
        return
    (group,) = response.groups if version >= 8 else (response,)
    assert (group.error_code, group.topics) == (ErrorCode.NOT_COORDINATOR, ())


@pytest.mark.parametrize("version", [8, 9, 10])
def test_fetch_of_many_groups_answers_each(version: int) -> None:
    bed, api = offsets_bed(), KioApi("offset_fetch", version)
    _committed(bed, 77)
    groups = tuple(
        api.part("OffsetFetchRequestGroup", group_id=group_id, topics=None, member_id=None, member_epoch=-1)
        for group_id in ("g", "none")
    )
    response = call(bed, api, "offset_fetch", groups=groups, require_stable=True)
    assert [(each.group_id, len(each.topics), each.error_code) for each in response.groups] == [
        ("g", 1, ErrorCode.NONE),
        ("none", 0, ErrorCode.NONE),
    ]


@pytest.mark.parametrize("version", TXN_COMMITS)
def test_transactional_commit_of_every_version_counts_when_the_transaction_commits(version: int) -> None:
    bed, api = offsets_bed(), KioApi("txn_offset_commit", version)
    response = call(bed, api, "txn_offset_commit", **_commit_values(api, 2**40, metadata=_LONG, leader_epoch=9))
    assert [(row.partition_index, row.error_code) for row in _rows(response)] == [(1, ErrorCode.NONE)]
    bed.write_marker(70, 0, is_commit=True)
    fetch = KioApi("offset_fetch", 9)
    (row,) = _rows(call(bed, fetch, "offset_fetch", **_fetch_values(fetch, 1, stable=True)))
    assert (row.committed_offset, row.metadata) == (2**40, _LONG)
    assert row.committed_leader_epoch == (9 if version >= 2 else -1)


@pytest.mark.parametrize("version", TXN_COMMITS)
def test_old_producers_are_not_told_that_the_coordinator_loads(version: int) -> None:
    api = KioApi("txn_offset_commit", version)
    loading, away = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE
    (row,) = _rows(refuse(api, "txn_offset_commit", loading, **_commit_values(api, 3)))
    assert row.error_code == (loading if version >= 2 else away)


def test_refusal_of_the_transaction_has_the_name_that_producers_know() -> None:
    api = KioApi("txn_offset_commit", 4)
    values = _commit_values(api, 3)
    (row,) = _rows(refuse(api, "txn_offset_commit", ErrorCode.PRODUCER_FENCED, **values))
    assert row.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    (row,) = _rows(refuse(api, "txn_offset_commit", ErrorCode.NOT_COORDINATOR, **(values | {"group_id": ""})))
    assert row.error_code == ErrorCode.INVALID_GROUP_ID


def test_deletion_is_answered_by_partition_or_refused_as_a_whole() -> None:
    bed, api = offsets_bed(), KioApi("offset_delete", 0)
    rows = tuple(api.part("OffsetDeleteRequestPartition", partition_index=number) for number in (1, 9))
    topics = (api.part("OffsetDeleteRequestTopic", name="orders", partitions=rows),)
    response = call(bed, api, "offset_delete", group_id="g", topics=topics)
    assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, ())
    _committed(bed, 77)
    response = call(bed, api, "offset_delete", group_id="g", topics=topics)
    assert response.error_code == ErrorCode.NONE
    assert [(row.partition_index, row.error_code) for row in _rows(response)] == [
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, ErrorCode.NONE),
    ]
    assert bed.shard.offsets.count == 0
    response = refuse(api, "offset_delete", ErrorCode.NOT_COORDINATOR, group_id="g", topics=topics)
    assert (response.error_code, response.topics) == (ErrorCode.NOT_COORDINATOR, ())
