"""Whoever of three brokers dies, is cut off or forgets: nothing acknowledged is lost, doubled or reordered, and in the
end all replicas are equal.

Fixed: seeds that once found something, two stories that are told again and again, and those of
`test_cluster_mutants` and `test_administration_mutants`. Random: `cluster_stories` others.
"""

import os
import subprocess
import sys

import pytest

from tests.amounts import seeds_of_tests
from tests.simulation.cluster.seeds import fingerprint, play
from tests.simulation.seeds import fail_if_violated

AT_ONCE = 10
FOUND_SOMETHING = (709, 852, 930, 970, 1308, 100_208, 205_016, 7_021_538, 7_026_480, 7_035_648)
"""Losses of power, slots of fetch sessions, reassignments under way, deletions that were not told of, refusals."""


@pytest.mark.parametrize("seed", FOUND_SOMETHING)
def test_a_story_that_once_went_wrong(seed: int) -> None:
    fail_if_violated(play(seed))


@pytest.mark.parametrize("seeds", seeds_of_tests("cluster_stories", AT_ONCE))
def test_a_cluster_keeps_its_promises_in_any_order_of_events(seeds: range) -> None:
    for seed in seeds:
        fail_if_violated(play(seed))


@pytest.mark.parametrize("seed", [3, 8])
def test_a_seed_tells_the_same_story_in_every_process(seed: int) -> None:
    """Whatever strings hash to, and wherever objects are."""
    code = f"from tests.simulation.cluster.seeds import fingerprint; print(fingerprint({seed}))"
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "3"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert {fingerprint(seed), fingerprint(seed)} == {elsewhere.stdout.strip()}
