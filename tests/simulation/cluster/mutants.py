"""Clusters with one rule broken each, which the seeds have to find out.

Wrong controllers, leaders and followers by themselves are in `tests/simulation/test_controller_mutants.py` and
`tests/core/replication`; here are rules that only whole brokers can break, and some of those once more.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from kafkad.core.controller import electorate
from kafkad.core.replication.leading.led_partition import LedPartition
from kafkad.core.types import BrokerId
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.shell import WorkerProcess
from tests.simulation.cluster.casting import ClusterShape
from tests.simulation.cluster.run import ClusterMutation
from tests.simulation.ports import Patch


def _answers_before_it_publishes() -> Sequence[Patch]:
    advanced = WorkerProcess.advanced

    def answer_first(self: WorkerProcess, owned: OwnedPartition) -> None:
        self.appender.advanced(owned.slot)
        advanced(self, owned)

    return [(WorkerProcess, "advanced", answer_first)]


def _commits_alone(self: LedPartition, log_end: int, min_isr: int, now_ms: int, live: Collection[int]) -> int:
    return log_end


def _whoever_lives(
    _strategy: object, *, assignment: Sequence[BrokerId], live: frozenset[BrokerId], **_: object
) -> BrokerId | None:
    return next((each for each in assignment if each in live), None)


def _rough(shape: ClusterShape) -> ClusterShape:
    """Where much goes wrong, mistakes show sooner."""
    return replace(shape, faults=8, pause_chance=max(shape.pause_chance, 0.01))


def _mutant(*patches: Patch, also: Callable[[], Sequence[Patch]] = tuple) -> ClusterMutation:
    for owner, name, _ in patches:
        assert hasattr(owner, name), f"{owner} has no {name}: nothing would be broken"
    return ClusterMutation(shape=_rough, patches=lambda: [*patches, *also()])


MUTANTS = {
    "answers before it publishes": _mutant(also=_answers_before_it_publishes),
    "commits alone": _mutant((LedPartition, "high_watermark", _commits_alone)),
    "elects whoever lives": _mutant((electorate, "elect", _whoever_lives)),
}
