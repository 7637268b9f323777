"""Runs of a cluster by number."""

from tests.simulation.cluster.run import FAITHFUL, ClusterMutation, ClusterRun
from tests.simulation.seeds import Failure, failure_of, fingerprint_of


def play(seed: int, mutation: ClusterMutation = FAITHFUL) -> Failure | None:
    module = "tests.simulation.cluster" if mutation is FAITHFUL else None
    return failure_of(seed, lambda seed, folder: ClusterRun(seed, folder, mutation), module)


def fingerprint(seed: int) -> str:
    return fingerprint_of(seed, ClusterRun)
