"""Responses of AddPartitionsToTxn, packed by hand, packed by kio alike."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafkad.wire.api_table import ADD_PARTITIONS_TO_TXN
from kafkad.wire.error_counts import take
from kafkad.wire.messages.add_partitions_to_txn import pack_one, pack_several
from tests.handlers.kio_calls import KioApi, versions_of

NAMES = st.text(alphabet=st.characters(codec="utf-8"), max_size=20) | st.just("x" * 300)
RESULTS = st.lists(st.tuples(st.integers(0, 2**31 - 1), st.sampled_from((0, 3, 51, 55))), max_size=3)
TOPICS = st.lists(st.tuples(NAMES, RESULTS), max_size=3)
Topics = list[tuple[str, list[tuple[int, int]]]]


def _of(api: KioApi, topics: Topics) -> tuple[object, ...]:
    return tuple(
        api.response_part(
            "AddPartitionsToTxnTopicResult",
            name=name,
            results_by_partition=tuple(
                api.response_part(
                    "AddPartitionsToTxnPartitionResult",
                    partition_index=index,
                    partition_error_code=ErrorCode(code),
                )
                for index, code in rows
            ),
        )
        for name, rows in topics
    )


@pytest.mark.parametrize("version", versions_of(ADD_PARTITIONS_TO_TXN))
@given(transactions=st.lists(st.tuples(NAMES, TOPICS), min_size=1, max_size=3))
def test_results_are_packed_as_by_their_schema(version: int, transactions: list[tuple[str, Topics]]) -> None:
    api = KioApi("add_partitions_to_txn", version)
    if version < 4:
        topics = transactions[0][1]
        expected = api.response(throttle_time=timedelta(0), results_by_topic_v3_and_below=_of(api, topics))
        assert pack_one(version, topics) == expected
        return
    rows = tuple(
        api.response_part("AddPartitionsToTxnResult", transactional_id=name, topic_results=_of(api, topics))
        for name, topics in transactions
    )
    expected = api.response(throttle_time=timedelta(0), error_code=ErrorCode.none, results_by_transaction=rows)
    assert pack_several(transactions) == expected


def test_errors_are_counted() -> None:
    take()
    pack_one(3, [("a", [(0, 51), (1, 51), (2, 0)])])
    assert take() == [(51, 2)]
