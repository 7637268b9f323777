"""Whatever order the seed decides, whoever dies: nothing acknowledged is lost, doubled, reordered or left waiting.

Fixed: three stories that are told twice, and those of `test_mutants`. Random: `broker_stories` others.
"""

import pytest

from tests.amounts import seeds_of_tests
from tests.simulation.seeds import fail_if_violated, fingerprint, play

AT_ONCE = 25


@pytest.mark.parametrize("seeds", seeds_of_tests("broker_stories", AT_ONCE))
def test_a_broker_keeps_its_promises_in_any_order_of_events(seeds: range) -> None:
    for seed in seeds:
        fail_if_violated(play(seed))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_tells_the_same_story_each_time(seed: int) -> None:
    assert fingerprint(seed) == fingerprint(seed)
