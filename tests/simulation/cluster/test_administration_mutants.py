"""The simulation of a cluster finds out who does wrong what an administrator asks for, and says what is wrong."""

import pytest

from tests.simulation.cluster.administration_mutants import MUTANTS
from tests.simulation.cluster.seeds import play

pytestmark = pytest.mark.interpreted

SEEDS = 60
"""So many chances to notice."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_cluster_that_is_administered_wrongly_is_found_out(name: str) -> None:
    mutant = MUTANTS[name]
    failures = (play(seed, mutant.mutation) for seed in range(mutant.first, mutant.first + SEEDS))
    assert any(failure is not None and mutant.found in failure.what for failure in failures)
