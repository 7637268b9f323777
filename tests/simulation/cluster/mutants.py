"""Clusters with one rule broken each, which the seeds have to find out.

Wrong controllers, leaders and followers by themselves are in `tests/simulation/test_controller_mutants.py` and
`tests/core/replication`; here are rules that only whole brokers can break, and some of those once more.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafkad.core.controller import electorate
from kafkad.core.coordinator.runtime import Runtime
from kafkad.core.groups.classic import requests
from kafkad.core.groups.classic.group import ClassicGroup
from kafkad.core.groups.classic.messages import Synced
from kafkad.core.groups.offsets.offset_metadata import GroupOffsets
from kafkad.core.groups.records import OffsetCommitted
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.replication.leading.led_partition import LedPartition
from kafkad.core.types import BrokerId
from kafkad.processes.network.logs.readers import LogReaders
from kafkad.processes.worker.loop import WorkerProcess
from kafkad.processes.worker.owned import OwnedPartition
from tests.simulation.cluster.casting import ClusterShape
from tests.simulation.cluster.run import ClusterMutation
from tests.simulation.ports import Patch


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMutant:
    mutation: ClusterMutation
    found: str
    """What the invariant says that has to find it."""
    seed: int
    """It was found by this one."""


def _answers_before_it_publishes() -> Sequence[Patch]:
    advance = WorkerProcess._advance

    def answer_first(self: WorkerProcess, owned: OwnedPartition, partition_log: PartitionLog) -> None:
        advance(self, owned, partition_log)
        self.appender.advanced(owned.slot)

    return [(WorkerProcess, "_advance", answer_first)]


def _commits_alone(self: LedPartition, log_end: int, min_isr: int, now_ms: int, live: Collection[int]) -> int:
    return log_end


def _whoever_lives(
    _strategy: object, *, assignment: Sequence[BrokerId], live: frozenset[BrokerId], **_: object
) -> BrokerId | None:
    return next((each for each in assignment if each in live), None)


def _remembers_nothing(self: Runtime[Any]) -> Iterator[None]:
    """A coordinator that begins anew wherever the leadership of its partition goes."""
    return iter(())


def _names_nobody(self: LogReaders, *_: object) -> list[tuple[int, int]]:
    return []


def _shows_what_is_pending() -> Sequence[Patch]:
    """An offset counts before its transaction ends, however that does."""
    replay_committed = GroupOffsets.replay_committed

    def replay(self: GroupOffsets, record: OffsetCommitted, offset: int, _producer: object) -> None:
        replay_committed(self, record, offset, None)

    return [(GroupOffsets, "replay_committed", replay)]


def _commits_what_is_aborted() -> Sequence[Patch]:
    transaction_ended = GroupOffsets.transaction_ended

    def ended(self: GroupOffsets, producer_id: int, *, is_commit: bool) -> None:
        transaction_ended(self, producer_id, is_commit=True)

    return [(GroupOffsets, "transaction_ended", ended)]


def _forgets_what_is_pending(self: GroupOffsets, producer_id: int, *, is_commit: bool) -> None:
    self._pending.take(producer_id)


def _takes_any_generation(self: ClassicGroup, *_: object, **__: object) -> None:
    """Whoever was a member once may commit."""


def _assigns_to_all(group: ClassicGroup, assignment: bytes) -> Synced:
    """What somebody has got before is given to others, too."""
    largest = max((member.assignment for member in group.members.values()), default=assignment)
    return Synced(protocol_type=group.protocol_type, protocol=group.protocol, assignment=largest)


def _rough(shape: ClusterShape) -> ClusterShape:
    """Where much goes wrong, mistakes show sooner."""
    return replace(shape, faults=4, pause_chance=max(shape.pause_chance, 0.01))


def _busy(shape: ClusterShape) -> ClusterShape:
    """Much is written, and everybody is held up in the middle of it."""
    quiet = replace(shape, faults=1, moves=0, deletions=0, transactors=0, keepers=0, forwarders=0, members=0)
    return replace(quiet, producers=2, batches=40, pause_chance=0.03)


def _transacting(shape: ClusterShape) -> ClusterShape:
    return replace(_rough(shape), transactors=2, keepers=0, forwarders=0, members=0, deletions=0)


def _keeping(shape: ClusterShape) -> ClusterShape:
    return replace(_rough(shape), transactors=0, forwarders=0, members=0, keepers=1, deletions=0)


def _forwarding(shape: ClusterShape) -> ClusterShape:
    return replace(_rough(shape), transactors=0, forwarders=1, members=0, keepers=0, deletions=0)


def _sharing(shape: ClusterShape) -> ClusterShape:
    return replace(_rough(shape), transactors=0, forwarders=0, members=3, keepers=0, moves=0, deletions=0)


def _mutant(
    *patches: Patch,
    found: str,
    seed: int,
    also: Callable[[], Sequence[Patch]] = tuple,
    shape: Callable[[ClusterShape], ClusterShape] = _rough,
) -> ClusterMutant:
    for owner, name, _ in patches:
        assert hasattr(owner, name), f"{owner} has no {name}: nothing would be broken"
    mutation = ClusterMutation(shape=shape, patches=lambda: [*patches, *also()])
    return ClusterMutant(mutation=mutation, found=found, seed=seed)


MUTANTS = {
    "answers before it publishes": _mutant(
        also=_answers_before_it_publishes, shape=_busy, found="acknowledged up to", seed=16
    ),
    "commits alone": _mutant(
        (LedPartition, "high_watermark", _commits_alone), found="lacks what was committed", seed=0
    ),
    "elects whoever lives": _mutant((electorate, "elect", _whoever_lives), found="leads, and is not in sync", seed=20),
    "forgets offsets": _mutant((Runtime, "_load", _remembers_nothing), shape=_keeping, found="it was told", seed=63),
    "forgets transactions": _mutant(
        (Runtime, "_load", _remembers_nothing), shape=_transacting, found="was producer", seed=12
    ),
    "names no aborted transaction": _mutant(
        (LogReaders, "aborted", _names_nobody), shape=_transacting, found="can be read", seed=6
    ),
    "shows offsets of open transactions": _mutant(
        also=_shows_what_is_pending, shape=_forwarding, found=", aborted: committed was", seed=9
    ),
    "commits offsets of aborted transactions": _mutant(
        also=_commits_what_is_aborted, shape=_forwarding, found=", aborted: committed was", seed=6
    ),
    "forgets offsets of transactions": _mutant(
        (GroupOffsets, "transaction_ended", _forgets_what_is_pending),
        shape=_forwarding,
        found="is at -1, never sent",
        seed=0,
    ),
    "takes commits of any generation": _mutant(
        (ClassicGroup, "check_offset_commit", _takes_any_generation), shape=_sharing, found="has committed", seed=482
    ),
    "forgets members and their offsets": _mutant(
        (Runtime, "_load", _remembers_nothing), shape=_sharing, found="was committed", seed=31
    ),
    "gives a partition to two members": _mutant(
        (requests, "_assigned", _assigns_to_all), shape=_sharing, found="belongs to", seed=0
    ),
}
