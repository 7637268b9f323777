"""Whoever of three brokers dies, is cut off or forgets: nothing acknowledged is lost, doubled or reordered, and in the
end all replicas are equal.

KAFKAD_SIMULATION_SEEDS says how many seeds are played, KAFKAD_SIMULATION_FIRST which is the first.
"""

import os
import subprocess
import sys

import pytest

from tests.simulation.cluster.seeds import fingerprint, play

SEEDS = int(os.environ.get("KAFKAD_SIMULATION_SEEDS", "2000"))
FIRST = int(os.environ.get("KAFKAD_SIMULATION_FIRST", "0"))
AT_ONCE = 10


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, AT_ONCE))
def test_a_cluster_keeps_its_promises_in_any_order_of_events(first: int) -> None:
    for seed in range(first, min(first + AT_ONCE, FIRST + SEEDS)):
        failure = play(seed)
        if failure is not None:
            pytest.fail(str(failure), pytrace=False)


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
