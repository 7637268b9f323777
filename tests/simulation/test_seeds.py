"""Whatever order the seed decides, whoever dies: nothing acknowledged is lost, doubled, reordered or left waiting.

KAFKAD_SIMULATION_SEEDS says how many seeds are played, KAFKAD_SIMULATION_FIRST which is the first.
"""

import os

import pytest

from tests.simulation.seeds import fingerprint, play

SEEDS = int(os.environ.get("KAFKAD_SIMULATION_SEEDS", "300"))
FIRST = int(os.environ.get("KAFKAD_SIMULATION_FIRST", "0"))
AT_ONCE = 25


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, AT_ONCE))
def test_a_broker_keeps_its_promises_in_any_order_of_events(first: int) -> None:
    for seed in range(first, min(first + AT_ONCE, FIRST + SEEDS)):
        failure = play(seed)
        if failure is not None:
            pytest.fail(str(failure), pytrace=False)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_tells_the_same_story_each_time(seed: int) -> None:
    assert fingerprint(seed) == fingerprint(seed)
