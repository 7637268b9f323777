"""The four election rules, and the checks on a strategy's choice."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import pytest

from kafkad.core.election import (
    ElectionContext,
    ElectionReason,
    IllegalElection,
    controlled_shutdown_leader,
    elect,
    offline_leader,
    preferred_leader,
    reassignment_leader,
)
from kafkad.core.types import BrokerId


def brokers(*ids: int) -> list[BrokerId]:
    return [BrokerId(number) for number in ids]


def broker_set(*ids: int) -> frozenset[BrokerId]:
    return frozenset(brokers(*ids))


class Always:
    """Elects whatever it was told to."""

    name = "always"

    def __init__(self, leader: int | None) -> None:
        self.leader = None if leader is None else BrokerId(leader)

    def elect(
        self,
        assignment: Sequence[BrokerId],
        isr: AbstractSet[BrokerId],
        live: AbstractSet[BrokerId],
        context: ElectionContext,
    ) -> BrokerId | None:
        return self.leader


def elected(strategy: Always, **options: object) -> BrokerId | None:
    context = ElectionContext(topic="t", partition=0, **options)  # type: ignore[arg-type]
    return elect(strategy, assignment=brokers(1, 2, 3), isr=broker_set(1, 2), live=broker_set(2, 3), context=context)


def test_offline_follows_the_assignment_and_not_the_isr() -> None:
    assert offline_leader(brokers(3, 1, 2), broker_set(1, 2), broker_set(1, 2, 3)) == 1


def test_offline_without_a_living_isr_member_elects_nobody() -> None:
    assert offline_leader(brokers(1, 2), broker_set(1), broker_set(2)) is None


def test_unclean_takes_the_first_alive_only_when_the_isr_is_dead() -> None:
    assert offline_leader(brokers(1, 2), broker_set(1), broker_set(2), unclean=True) == 2
    assert offline_leader(brokers(2, 1), broker_set(1), broker_set(1, 2), unclean=True) == 1


def test_reassignment_elects_out_of_the_new_assignment() -> None:
    assert reassignment_leader(brokers(4, 5), broker_set(1, 5), broker_set(1, 4, 5)) == 5


def test_preferred_is_the_first_replica_or_nobody() -> None:
    assert preferred_leader(brokers(2, 1), broker_set(1, 2), broker_set(1, 2)) == 2
    assert preferred_leader(brokers(2, 1), broker_set(1), broker_set(1, 2)) is None
    assert preferred_leader([], broker_set(1), broker_set(1)) is None


def test_controlled_shutdown_passes_over_those_that_stop_too() -> None:
    everyone = broker_set(1, 2, 3)
    assert controlled_shutdown_leader(brokers(1, 2, 3), everyone, everyone, broker_set(1, 2)) == 3
    assert controlled_shutdown_leader(brokers(1), everyone, everyone, broker_set(1)) is None


def test_a_strategy_may_elect_nobody() -> None:
    assert elected(Always(None)) is None


def test_the_leader_is_a_plain_number_whatever_the_strategy_counts_with() -> None:
    class Number(int):
        pass

    assert type(elected(Always(Number(2)))) is int


@pytest.mark.parametrize("leader", [1, 9])
def test_a_dead_or_unassigned_leader_is_refused(leader: int) -> None:
    with pytest.raises(IllegalElection, match=r"'always' elected \d for t-0: expected one of \[2, 3\]"):
        elected(Always(leader))


def test_a_leader_outside_the_isr_needs_unclean_election() -> None:
    with pytest.raises(IllegalElection, match=r"expected a member of the ISR \[1, 2\]"):
        elected(Always(3))
    assert elected(Always(3), unclean=True) == 3


def test_unclean_never_applies_to_a_preferred_election() -> None:
    with pytest.raises(IllegalElection):
        elected(Always(3), unclean=True, reason=ElectionReason.PREFERRED)
