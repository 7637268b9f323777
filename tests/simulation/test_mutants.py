"""The simulation finds out a broker that breaks a rule: each rule is broken on purpose, one at a time."""

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.seeds import play

pytestmark = pytest.mark.interpreted

SEEDS = 400
"""So many chances to notice; most mutants are found within ten."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broker_that_breaks_a_rule_is_found_out(name: str) -> None:
    assert any(play(seed, MUTANTS[name]) is not None for seed in range(SEEDS))
