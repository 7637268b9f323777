"""DescribeTransactions and ListTransactions: their fields, and every filter (KIP-664, 994, 1152)."""

import pytest

from kafkad.adapters.patterns import BoundedPattern
from kafkad.core.errors import ErrorCode
from kafkad.core.transactions.requests import ListedTransaction, TransactionDescription, TransactionsListed
from kafkad.core.transactions.state import STATES_BY_NAME
from tests.core.transactions.bed import T0, T1, TIMEOUT_MS, TransactionBed


def populated() -> TransactionBed:
    """ "open" for ten seconds, "done" is committed, "idle" never had a transaction."""
    bed = TransactionBed()
    bed.added(bed.started("open"), T1, T0, transactional_id="open")
    done = bed.started("done")
    bed.advance(10_000)
    bed.added(done, T0, transactional_id="done")
    bed.end(done, transactional_id="done")
    bed.write_markers()
    bed.started("idle")
    return bed


def test_a_description_has_everything_about_the_transaction() -> None:
    bed = populated()
    assert bed.describe("open") == TransactionDescription(
        transactional_id="open",
        state="Ongoing",
        timeout_ms=TIMEOUT_MS,
        start_ms=bed.moment.wall_ms - 10_000,
        producer_id=1_000,
        producer_epoch=0,
        partitions=(T1, T0),
    )


def test_what_is_not_there_or_has_no_name_is_told() -> None:
    bed = TransactionBed()
    assert bed.describe("x").code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert bed.describe("").code is ErrorCode.INVALID_REQUEST


def test_without_a_filter_all_are_listed() -> None:
    assert set(populated().list_all().transactions) == {
        ListedTransaction("open", 1_000, "Ongoing"),
        ListedTransaction("done", 1_001, "CompleteCommit"),
        ListedTransaction("idle", 1_002, "Empty"),
    }


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"states": ["Ongoing"]}, ["open"]),
        ({"states": ["Ongoing", "Empty"]}, ["idle", "open"]),
        ({"states": ["Dead"]}, []),
        ({"producer_ids": [1_001, 7]}, ["done"]),
        ({"producer_ids": [1_001], "states": ["Empty"]}, []),
        ({"duration_ms": 9_999, "states": ["Ongoing"]}, ["open"]),
        ({"duration_ms": 10_000, "states": ["Ongoing"]}, []),
        ({"duration_ms": 5_000}, ["idle", "open"]),
        ({"pattern": "o.*"}, ["open"]),
        ({"pattern": ".*e"}, ["done", "idle"]),
        ({"pattern": "ope"}, []),
        ({"pattern": ""}, ["done", "idle", "open"]),
    ],
)
def test_filters_let_through_what_fits_all_of_them(wanted: dict[str, object], names: list[str]) -> None:
    assert populated().listed(**wanted) == names


def test_states_that_nobody_knows_are_named_and_let_nothing_through() -> None:
    reply = populated().list_all(states=["ongoing", "Gone", "Gone"])
    assert reply == TransactionsListed(unknown_states=("ongoing", "Gone"))


def test_a_pattern_that_is_none_is_refused() -> None:
    assert populated().list_all(pattern="(") == TransactionsListed(code=ErrorCode.INVALID_REGULAR_EXPRESSION)


def test_a_pattern_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_long(*_: object) -> object:
        raise ValueError("it takes too long to match")

    bed = populated()
    monkeypatch.setattr(BoundedPattern, "fullmatch", too_long)
    assert bed.list_all(pattern="o.*") == TransactionsListed(code=ErrorCode.INVALID_REGULAR_EXPRESSION)


def test_states_have_kafkas_names() -> None:
    assert list(STATES_BY_NAME) == [
        *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
        *("Dead", "PrepareEpochFence"),
    ]
