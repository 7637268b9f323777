"""The ledger check itself: it has to see a lost, a doubled, a moved and a missing record. There is no broker."""

import pytest

from tests.daemon.ledger import PARTITIONS, Ledger, check_ledger

IN_ORDER = {partition: {0: 0, 1: 1, 2: 2} for partition in range(PARTITIONS)}


def ledger_of_three() -> Ledger:
    ledger = Ledger()
    for partition in range(PARTITIONS):
        ledger.sent[partition] = 3
        ledger.acknowledged[partition] = [(0, 0), (1, 1), (2, 2)]
    return ledger


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_log_that_agrees_passes(idempotent: bool) -> None:
    check_ledger(ledger_of_three(), IN_ORDER, idempotent=idempotent)


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        pytest.param({0: 0, 1: 1, 2: 2, 3: 2}, "twice", id="doubled"),
        pytest.param({0: 0, 1: 1}, "not at their offset", id="lost"),
        pytest.param({0: 0, 1: 2, 2: 1}, "out of order", id="moved"),
        pytest.param({0: 0, 1: 1, 3: 2}, "not at their offset", id="at another offset"),
    ],
)
def test_a_log_that_disagrees_is_found_out(log: dict[int, int], complaint: str, idempotent: bool) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_ledger(ledger_of_three(), IN_ORDER | {2: log}, idempotent=idempotent)


def test_a_record_that_was_sent_but_is_missing_matters_to_an_idempotent_producer_only() -> None:
    ledger = ledger_of_three()
    ledger.sent[1] = 4
    check_ledger(ledger, IN_ORDER, idempotent=False)
    with pytest.raises(AssertionError, match="3 of 4 records"):
        check_ledger(ledger, IN_ORDER, idempotent=True)
