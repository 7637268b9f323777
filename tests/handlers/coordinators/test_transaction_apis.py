"""Every version of the APIs of transactions, written and read by kio: fields, codes that old clients know, refusals."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import TransactionDescription, TransactionsDescribed
from kafkad.handlers.coordinators.requests import routing
from kafkad.handlers.coordinators.transactions import describe_transactions
from kafkad.wire.api_table import DESCRIBE_TRANSACTIONS
from tests.core.transactions.bed import TransactionBed
from tests.handlers.coordinators.transaction_calls import call, refuse

MINUTE = timedelta(minutes=1)
BUSY = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def producer(bed: TransactionBed, transactional_id: str = "x") -> dict[str, Any]:
    producer_id, epoch = bed.started(transactional_id)
    return {"transactional_id": transactional_id, "producer_id": producer_id, "producer_epoch": epoch}


def old_style(values: dict[str, Any]) -> dict[str, Any]:
    return {f"v3_and_below_{name}": value for name, value in values.items()}


def add(bed: TransactionBed, version: int, values: dict[str, Any], topics: dict[str, tuple[int, ...]]) -> Any:
    """{(topic, partition): name of the code} of one transaction, whatever the version."""
    if version >= 4:
        response = call(bed, "add_partitions_to_txn", version, transactions=[values | {"topics": topics}])
        assert response.error_code.name == "none"
        (row,) = response.results_by_transaction
        assert row.transactional_id == values["transactional_id"]
        return codes(row.topic_results)
    response = call(bed, "add_partitions_to_txn", version, **old_style(values), topics=topics)
    return codes(response.results_by_topic_v3_and_below)


def codes(topics: Any) -> dict[tuple[str, int], str]:
    return {
        (topic.name, row.partition_index): row.partition_error_code.name
        for topic in topics
        for row in topic.results_by_partition
    }


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id_gives_id_and_epoch(version: int) -> None:
    bed = TransactionBed()
    values = {"transactional_id": "x", "transaction_timeout": MINUTE}
    first = call(bed, "init_producer_id", version, **values)
    second = call(bed, "init_producer_id", version, **values)
    assert [(each.error_code.name, each.producer_id, each.producer_epoch) for each in (first, second)] == [
        ("none", 1_000, 0),
        ("none", 1_000, 1),
    ]
    assert bed.describe().timeout_ms == 60_000


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id_without_a_transactional_id_is_answered_too(version: int) -> None:
    bed = TransactionBed()
    response = call(bed, "init_producer_id", version, transactional_id=None, transaction_timeout=MINUTE)
    assert (response.producer_id, response.producer_epoch) == (1_000, 0)


@pytest.mark.parametrize(("version", "code"), [(3, "invalid_producer_epoch"), (4, "producer_fenced")])
def test_init_producer_id_fences_in_words_that_the_client_knows(version: int, code: str) -> None:
    bed = TransactionBed()
    zombie = producer(bed)
    bed.started()
    response = call(bed, "init_producer_id", version, **zombie, transaction_timeout=MINUTE)
    assert (response.error_code.name, response.producer_id, response.producer_epoch) == (code, -1, -1)


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added(version: int) -> None:
    bed = TransactionBed()
    topics = {"t": (3, 1), "u": (0,)}
    assert add(bed, version, producer(bed), topics) == {("t", 3): "none", ("t", 1): "none", ("u", 0): "none"}
    assert set(bed.describe().partitions) == {("t", 3), ("t", 1), ("u", 0)}


@pytest.mark.parametrize("version", range(6))
def test_partitions_of_a_zombie_are_refused_in_words_that_it_knows(version: int) -> None:
    bed = TransactionBed()
    zombie = producer(bed)
    bed.started()
    code = "invalid_producer_epoch" if version < 2 else "producer_fenced"
    assert add(bed, version, zombie, {"t": (0,)}) == {("t", 0): code}


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_verify_and_add_for_several_transactions(version: int) -> None:
    bed = TransactionBed()
    one, other = producer(bed, "x"), producer(bed, "y")
    add(bed, version, one, {"t": (0,)})
    response = call(
        bed,
        "add_partitions_to_txn",
        version,
        transactions=[
            one | {"topics": {"t": (0, 1)}, "verify_only": True},
            other | {"topics": {"u": (1,)}, "verify_only": False},
        ],
    )
    found = {row.transactional_id: codes(row.topic_results) for row in response.results_by_transaction}
    assert found == {
        "x": {("t", 0): "none", ("t", 1): "transaction_abortable"},
        "y": {("u", 1): "none"},
    }
    # Whoever adds by a broker speaks transaction version 2.
    bed.end((one["producer_id"], 0), version=2)
    assert bed.markers[0].transaction_version == 2


@pytest.mark.parametrize("version", range(5))
def test_offsets_are_added(version: int) -> None:
    bed = TransactionBed()
    response = call(bed, "add_offsets_to_txn", version, **producer(bed), group_id="g")
    assert response.error_code.name == "none"
    assert bed.describe().partitions == (("__consumer_offsets", ord("g") % 50),)


@pytest.mark.parametrize(("version", "code"), [(1, "invalid_producer_epoch"), (2, "producer_fenced")])
def test_offsets_of_a_zombie_are_refused_in_words_that_it_knows(version: int, code: str) -> None:
    bed = TransactionBed()
    zombie = producer(bed)
    bed.started()
    response = call(bed, "add_offsets_to_txn", version, **zombie, group_id="g")
    assert response.error_code.name == code


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("version", range(6))
def test_a_transaction_is_ended(version: int, committed: bool) -> None:
    bed = TransactionBed()
    values = producer(bed)
    add(bed, 3, values, {"t": (0,)})
    response = call(bed, "end_txn", version, **values, committed=committed)
    assert response.error_code.name == "none"
    assert bed.state() == ("PrepareCommit" if committed else "PrepareAbort")
    if version >= 5:
        assert (response.producer_id, response.producer_epoch) == (values["producer_id"], 1)


@pytest.mark.parametrize(("version", "code"), [(1, "invalid_producer_epoch"), (2, "producer_fenced")])
def test_the_end_of_a_zombie_is_refused_in_words_that_it_knows(version: int, code: str) -> None:
    bed = TransactionBed()
    zombie = producer(bed)
    bed.started()
    assert call(bed, "end_txn", version, **zombie, committed=True).error_code.name == code


def test_transactions_are_described() -> None:
    bed = TransactionBed()
    values = producer(bed)
    add(bed, 3, values, {"u": (1,), "t": (2, 0)})
    producer(bed, "idle")
    response = call(bed, "describe_transactions", 0, transactional_ids=("x", "idle", "nobody", ""))
    row, idle, nobody, nameless = response.transaction_states
    assert (row.transactional_id, row.error_code.name, row.transaction_state) == ("x", "none", "Ongoing")
    assert (row.producer_id, row.producer_epoch, row.transaction_timeout) == (1_000, 0, MINUTE)
    assert row.transaction_start_time == datetime.fromtimestamp(bed.moment.wall_ms / 1000, UTC)
    assert {topic.topic: topic.partitions for topic in row.topics} == {"t": (0, 2), "u": (1,)}
    assert (idle.transaction_state, idle.topics) == ("Empty", ())
    assert nobody.error_code.name == "transactional_id_not_found"
    assert nameless.error_code.name == "invalid_request"


@pytest.mark.parametrize("sizes", [(1, 1), (0, 2), (150, 3, 1)])
def test_descriptions_of_several_shards_become_one(sizes: tuple[int, ...]) -> None:
    """Also of ids without a transaction, whose times kio can't read."""
    rows = [
        tuple(TransactionDescription(transactional_id=f"{shard}-{number}", start_ms=-1) for number in range(size))
        for shard, size in enumerate(sizes)
    ]
    answers = [describe_transactions.pack(TransactionsDescribed(transactions=each), 0) for each in rows]
    together = TransactionsDescribed(transactions=tuple(row for each in rows for row in each))
    joined = routing.merge(DESCRIBE_TRANSACTIONS, "describe_transactions", 0, answers)
    assert joined == describe_transactions.pack(together, 0)


@pytest.mark.parametrize("version", range(3))
def test_transactions_are_listed_by_the_filters_of_each_version(version: int) -> None:
    bed = TransactionBed()
    add(bed, 3, producer(bed, "long"), {"t": (0,)})
    bed.advance(10_000)
    add(bed, 3, producer(bed, "short"), {"t": (0,)})
    producer(bed, "idle")

    def listed(**filters: Any) -> list[str]:
        values = {"state_filters": ("Ongoing", "Odd"), "producer_id_filters": (), **filters}
        response = call(bed, "list_transactions", version, **values)
        assert (response.error_code.name, response.unknown_state_filters) == ("none", ("Odd",))
        return [row.transactional_id for row in response.transaction_states]

    assert listed() == ["long", "short"]
    assert listed(producer_id_filters=(1_000,)) == ["long"]
    assert listed(duration_filter=5_000) == (["long"] if version >= 1 else ["long", "short"])
    assert listed(transactional_id_pattern="s.*") == (["short"] if version >= 2 else ["long", "short"])


def test_a_pattern_that_is_none_is_an_error() -> None:
    response = call(TransactionBed(), "list_transactions", 2, transactional_id_pattern="*")
    assert response.error_code.name == "invalid_regular_expression"


@pytest.mark.parametrize("version", range(6))
def test_who_can_not_be_served_is_refused_in_the_shape_of_its_request(version: int) -> None:
    values = {"transactional_id": "x", "producer_id": 5, "producer_epoch": 0}
    init = refuse("init_producer_id", version, BUSY, **values, transaction_timeout=MINUTE)
    assert (init.error_code.name, init.producer_id) == ("coordinator_load_in_progress", -1)
    end = refuse("end_txn", version, BUSY, **values, committed=True)
    assert end.error_code.name == "coordinator_load_in_progress"
    topics = {"t": (0, 1)}
    if version < 4:
        rows = refuse("add_partitions_to_txn", version, BUSY, **old_style(values), topics=topics)
        found = codes(rows.results_by_topic_v3_and_below)
    else:
        rows = refuse("add_partitions_to_txn", version, BUSY, transactions=[values | {"topics": topics}])
        found = codes(rows.results_by_transaction[0].topic_results)
    assert found == {("t", 0): "coordinator_load_in_progress", ("t", 1): "coordinator_load_in_progress"}


@pytest.mark.parametrize("version", range(5))
def test_added_offsets_that_can_not_be_served_are_refused(version: int) -> None:
    values = {"transactional_id": "x", "producer_id": 5, "producer_epoch": 0, "group_id": "g"}
    assert refuse("add_offsets_to_txn", version, BUSY, **values).error_code.name == "coordinator_load_in_progress"


def test_descriptions_are_refused_each_and_lists_as_a_whole() -> None:
    described = refuse("describe_transactions", 0, BUSY, transactional_ids=("x", "y"))
    assert {(row.transactional_id, row.error_code.name) for row in described.transaction_states} == {
        ("x", "coordinator_load_in_progress"),
        ("y", "coordinator_load_in_progress"),
    }
    for version in range(3):
        response = refuse("list_transactions", version, BUSY)
        assert (response.error_code.name, response.transaction_states) == ("coordinator_load_in_progress", ())


@pytest.mark.parametrize("version", range(6))
def test_a_refused_append_is_told_in_the_shape_of_the_request(version: int) -> None:
    bed = TransactionBed()
    values = producer(bed)
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert add(bed, version, values, {"t": (0,)}) == {("t", 0): "coordinator_not_available"}
