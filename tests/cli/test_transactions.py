"""`kafkad transactions`: tables as kafka-transactions prints them, which transactions hang, and what is wrong usage."""

import pytest
from click.testing import CliRunner

from kafkad.cli import main
from kafkad.cli.commands.transactions import hanging, overdue
from kafkad.cli.transaction_tables import description_lines, hanging_lines, listing_lines
from kafkad.client.transactions import ListedTransaction, ProducerState, TransactionDescription

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000


def producer(producer_id: int, *, minutes: int = 60, start_offset: int | None = 5) -> ProducerState:
    return ProducerState(
        topic="t",
        partition=0,
        producer_id=producer_id,
        producer_epoch=3,
        coordinator_epoch=-1,
        last_timestamp=NOW_MS - minutes * MINUTE_MS,
        start_offset=start_offset,
    )


def test_columns_are_as_wide_as_their_widest_value() -> None:
    rows = [ListedTransaction("a-transactional-id", 1, 1_000, "Ongoing"), ListedTransaction("b", 2, 7, "Empty")]
    assert listing_lines(rows) == [
        "TransactionalId   \tCoordinator\tProducerId\tTransactionState\t",
        "a-transactional-id\t1          \t1000      \tOngoing         \t",
        "b                 \t2          \t7         \tEmpty           \t",
    ]


def description(start_ms: int | None) -> TransactionDescription:
    return TransactionDescription(
        transactional_id="x",
        coordinator=1,
        producer_id=1_000,
        producer_epoch=3,
        state="Ongoing",
        timeout_ms=60_000,
        start_ms=start_ms,
        partitions=(("t", 0), ("t", 1)),
    )


@pytest.mark.parametrize(("start_ms", "shown"), [(NOW_MS - 12, (str(NOW_MS - 12), "12")), (None, ("None", "None"))])
def test_a_description_says_since_when_and_how_long(start_ms: int | None, shown: tuple[str, str]) -> None:
    _, line = description_lines(description(start_ms), NOW_MS)
    values = [value.strip() for value in line.split("\t")]
    assert values == ["1", "x", "1000", "3", "Ongoing", "60000", *shown, "t-0,t-1", ""]


def test_hanging_transactions_are_told_with_their_age_in_minutes() -> None:
    _, line = hanging_lines([producer(9)], NOW_MS)
    assert [value.strip() for value in line.split("\t")] == [
        *("t", "0", "9", "3", "-1", "5"),
        *(str(NOW_MS - 60 * MINUTE_MS), "60", ""),
    ]


def test_only_open_transactions_that_are_silent_for_too_long_may_hang() -> None:
    young, idle, old = producer(1, minutes=15), producer(2, start_offset=None), producer(3, minutes=16)
    assert overdue([young, idle, old], NOW_MS, 15 * MINUTE_MS) == [old]


def test_what_a_coordinator_will_end_does_not_hang() -> None:
    stray, dropped, known = producer(1), producer(2), producer(3)
    id_of = {2: "dropped", 3: "known"}
    partitions = {"dropped": [("t", 1)], "known": [("t", 1), ("t", 0)]}
    assert hanging([stray, dropped, known], id_of, partitions) == [stray, dropped]


@pytest.mark.parametrize(
    "arguments",
    [
        ["abort", "--topic", "t", "--partition", "0"],
        ["abort", "--topic", "t", "--partition", "0", "--producer-id", "1", "--producer-epoch", "2"],
        ["abort", "--partition", "0", "--start-offset", "1"],
        ["find-hanging"],
        ["find-hanging", "--partition", "0"],
        ["describe"],
    ],
)
def test_half_a_question_is_wrong_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, ["transactions", *arguments]).exit_code == 2
