"""The built-in strategy follows the rule that the reason of the election asks for."""

import pytest

from kafkad.core.election import ElectionContext, ElectionReason, elect
from kafkad.core.types import BrokerId
from kafkad.plugins.leader_election import PreferredReplica

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


@pytest.mark.parametrize(
    ("reason", "isr", "live", "leader"),
    [
        (ElectionReason.OFFLINE, {TWO, THREE}, {ONE, TWO, THREE}, TWO),
        (ElectionReason.REASSIGNMENT, {THREE}, {ONE, TWO, THREE}, THREE),
        (ElectionReason.PREFERRED, {TWO}, {ONE, TWO, THREE}, None),
        (ElectionReason.PREFERRED, {ONE, TWO}, {ONE, TWO, THREE}, ONE),
        (ElectionReason.CONTROLLED_SHUTDOWN, {ONE, TWO, THREE}, {ONE, TWO, THREE}, TWO),
        (ElectionReason.OFFLINE, {ONE}, {TWO, THREE}, None),
    ],
)
def test_the_reason_picks_the_rule(
    reason: ElectionReason, isr: set[BrokerId], live: set[BrokerId], leader: BrokerId | None
) -> None:
    context = ElectionContext(topic="t", partition=0, reason=reason, shutting_down=frozenset({ONE}))
    strategy = PreferredReplica()
    assert elect(strategy, assignment=[ONE, TWO, THREE], isr=isr, live=live, context=context) == leader


def test_unclean_election_is_allowed_where_the_context_says_so() -> None:
    context = ElectionContext(topic="t", partition=0, unclean=True)
    assert elect(PreferredReplica(), assignment=[ONE, TWO], isr={ONE}, live={TWO}, context=context) == TWO
