"""The simulation finds out a broker that breaks a rule: each rule is broken on purpose, one at a time."""

import pytest

from tests.mutants import find_out
from tests.simulation.mutants import MUTANTS
from tests.simulation.seeds import play


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broker_that_breaks_a_rule_is_found_out(name: str) -> None:
    mutant = MUTANTS[name]

    def is_found(seed: int) -> bool:
        failure = play(seed, mutant.mutation)
        return failure is not None and mutant.found in failure.what

    find_out(name, mutant.seed, "broker_mutant_seeds", is_found)
