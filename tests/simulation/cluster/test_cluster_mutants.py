"""The simulation of a cluster finds out brokers that break a rule, and says what is wrong."""

import pytest

from tests.simulation.cluster.mutants import MUTANTS
from tests.simulation.cluster.seeds import play

pytestmark = pytest.mark.interpreted

SEEDS = 150
"""So many chances to notice; most are found within ten."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_cluster_that_breaks_a_rule_is_found_out(name: str) -> None:
    mutant = MUTANTS[name]
    failures = (play(seed, mutant.mutation) for seed in range(mutant.first, mutant.first + SEEDS))
    assert any(failure is not None and mutant.found in failure.what for failure in failures)
