"""Brokers with one rule broken each: what the simulation is worth is which of them it finds out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafkad.adapters.files.segment_files import SegmentFile
from kafkad.adapters.shared_memory.descriptor_ring import RingReader
from kafkad.adapters.shared_memory.process_registry import ProcessKey, ProcessRegistry
from kafkad.core.cleaning.record_filter import LatestOfEachKey
from kafkad.core.columns.arrays import Flags
from kafkad.core.columns.records import RecordColumns
from kafkad.core.coordinator.runtime import Runtime, State
from kafkad.core.log.partition_log import PartitionLog
from kafkad.core.log.pending_flush import PendingFlush
from kafkad.core.log.producers.producer_state import ACCEPT, ProducerStates
from kafkad.core.log.recovery.loading import LoadRequest
from kafkad.core.partition_slot import PartitionSlot
from kafkad.core.types import LOG_END, LogPosition
from kafkad.processes.cleaner import rewriting
from kafkad.processes.controller.replica_removals import ReplicaRemovals
from kafkad.processes.network.logs.readers import LogReaders
from kafkad.processes.network.produce_requests import ProduceRequests
from kafkad.processes.runtime import rings
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.worker import loading, partition_requests
from kafkad.processes.worker.loop import WorkerProcess
from kafkad.processes.worker.slots import Watchers
from kafkad.wire.processes.descriptors import unpack_watches, watched_slot
from tests.simulation.casting import Shape
from tests.simulation.ports import Patch
from tests.simulation.run import Mutation


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    mutation: Mutation
    found: str
    """What the invariant says that has to find it."""
    seed: int
    """It was found by this one."""


class AnswersBeforeItPublishes(WorkerProcess):
    """Tells a producer that its records are there before anybody can read them."""

    def _publish_dirty(self) -> None:
        self.appender.send_responses()
        super()._publish_dirty()


class LooksAtProducersOnly(WorkerProcess):
    """Answers questions, and then forgets that they may give some part of it work."""

    def _handle_request(self, peer: ProcessKey, frame: bytes) -> None:
        before = self.has_work
        super()._handle_request(peer, frame)
        self.has_work = before


class DeafToIncarnations(RingReader):
    """Takes what was queued for, or by, somebody who is dead."""

    def receive(self) -> list[bytes]:
        before, self._incarnations = self._incarnations, _AnyLife()
        try:
            return super().receive()
        finally:
            self._incarnations = before


class _AnyLife(tuple):  # type: ignore[type-arg]
    """Equal to whatever it is compared with."""

    def __new__(cls) -> "_AnyLife":
        return super().__new__(cls, (1 << 30, 1 << 30))

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = tuple.__hash__


def _is_always_seen(self: ProcessRegistry, me: ProcessKey, role: str) -> bool:
    return True


def _accepts(self: ProducerStates, *_: object) -> object:
    return ACCEPT


class _Unwritten:
    """What a lazy file has put off: one write for each path."""

    def __init__(self) -> None:
        self.by_path: dict[str, tuple[bytes, int]] = {}


def _writes_later() -> Sequence[Patch]:
    """The bytes of a batch reach its file with the next batch."""
    write_at, later = SegmentFile.write_at, _Unwritten()

    def write(self: SegmentFile, buffers: Sequence[Any], position: int) -> None:
        before = later.by_path.pop(self.path, None)
        if before is not None:
            write_at(self, (before[0],), before[1])
        if self.path.endswith(".log"):
            later.by_path[self.path] = b"".join(buffers), position
        else:
            write_at(self, buffers, position)

    return [(SegmentFile, "write_at", write)]


def _believes_every_log(**fields: Any) -> LoadRequest:
    return LoadRequest(**{**fields, "was_clean": True})


def _never_late(self: Watchers, peer: ProcessKey, frame: bytes) -> None:
    """Whoever asks to be told waits for the next record, though there is one already."""
    for key, short_id, offset in unpack_watches(frame):
        slot, isolation = watched_slot(key)
        owned = self._by_slot.get(slot)
        if owned is not None and owned.short_id == short_id:
            owned.forget_watch(peer.index, isolation)
            owned.watchers.append((peer.index, offset, isolation))


def _keeps_the_arena() -> Sequence[Patch]:
    finish = ProduceRequests._finish

    def forgetful(self: ProduceRequests, produce: Any, reply: Any, connection: Any) -> None:
        arena, self._arena = self._arena, _NoArena()  # type: ignore[assignment]
        try:
            finish(self, produce, reply, connection)
        finally:
            self._arena = arena

    return [(ProduceRequests, "_finish", forgetful)]


class _NoArena:
    def release(self, extent: int) -> None:
        """Gives nothing back."""


def _forgets_the_dead(self: ProduceRequests, worker: int) -> None:
    """Does not answer for a worker that is dead."""
    self.reachable[worker] = False
    self.outgoing[worker].clear()


def _below_the_watermark(partition_log: PartitionLog, offset: int) -> int:
    """Forgets that a segment may have grown since it was to go."""
    bases = partition_log.segments.base_offsets
    ends = [*bases[1:], partition_log.log_end_offset]
    committed = partition_log.high_watermark.offset
    return max((base for base, end in zip(bases, ends, strict=True) if end <= committed), default=-1)


def _keeps_the_ended(self: ReplicaRemovals, worker: int) -> None:
    """Waits for a dead worker to do what it was never told."""


def _reads_to_the_watermark(published: PartitionSlot, isolation: int) -> LogPosition:
    """Open transactions hold nobody back."""
    if isolation == LOG_END:
        return LogPosition(published.leo_offset, published.leo_segment, published.leo_position)
    return LogPosition(published.hw_offset, published.hw_segment, published.hw_position)


def _ends_at_the_watermark(published: PartitionSlot, isolation: int) -> int:
    return _reads_to_the_watermark(published, isolation).offset


def _names_nobody(self: LogReaders, *_: object) -> list[tuple[int, int]]:
    """Lets readers of committed records find out by themselves what was aborted."""
    return []


def _remembers_nothing(self: Runtime[Any]) -> Iterator[None]:
    """A coordinator that begins anew with each incarnation of its worker."""
    return iter(())


def _leaves_undone(self: Runtime[Any], moment: Any) -> bool:
    """A coordinator that remembers what was decided, and has nothing done about it."""
    for _ in self._loading:
        return False
    self.state = State.ACTIVE
    return True


def _holds_nothing_back(self: PendingFlush, *_: object) -> None:
    """Acknowledges what is in the page cache only."""


def _leaves_it_in_the_page_cache(*_: object) -> None:
    """What was cleaned takes the place of its sources, and is on no disk."""


def _keeps_values(self: LatestOfEachKey, records: RecordColumns, end_offset: int, now_ms: int) -> Flags:
    """Whatever has a value stays, and no tombstone does: what was deleted is there again."""
    return (records.offset >= end_offset) | (records.value_size >= 0)


def _without_power(shape: Shape) -> Shape:
    return replace(rough(shape), loses_power=True)


def rough(shape: Shape) -> Shape:
    """Where much goes wrong, mistakes show sooner."""
    return replace(shape, faults=8, pause_chance=max(shape.pause_chance, 0.03), transactors=2)


def _crowded(shape: Shape) -> Shape:
    """One process of each kind and one partition of each topic: everybody is in everybody's way."""
    return replace(shape, faults=8, pause_chance=0.1, networks=1, workers=1, partitions=1, transactors=0, slowness=0.5)


def _held_up(shape: Shape) -> Shape:
    """Much happens between a question and its answer."""
    return replace(_crowded(shape), pause_chance=0.3, slowness=0.9, segment_bytes=6_000)


def _mutant(
    *patches: Patch,
    found: str,
    seed: int,
    worker: Callable[[ChildContext], WorkerProcess] = WorkerProcess,
    also: Callable[[], Sequence[Patch]] = tuple,
    shape: Callable[[Shape], Shape] = rough,
) -> Mutant:
    for owner, name, _ in patches:
        assert hasattr(owner, name), f"{owner} has no {name}: nothing would be broken"
    mutation = Mutation(shape=shape, worker=worker, patches=lambda: [*patches, *also()])
    return Mutant(mutation=mutation, found=found, seed=seed)


MUTANTS = {
    "answers before it publishes": _mutant(worker=AnswersBeforeItPublishes, found="acknowledged up to", seed=10),
    "looks at producers only": _mutant(worker=LooksAtProducersOnly, found="is done", seed=12),
    "publishes before it writes": _mutant(also=_writes_later, found="readable up to byte", seed=0),
    "hears messages of the dead": _mutant(
        (rings, "RingReader", DeafToIncarnations), found="this should not happen", seed=11
    ),
    "uses its arena at once": _mutant(
        (ProcessRegistry, "is_seen_by_all", _is_always_seen), shape=_crowded, found="this should not happen", seed=561
    ),
    "recognizes no repetition": _mutant(
        (ProducerStates, "check", _accepts), found="has records in the log twice", seed=3
    ),
    "believes every log": _mutant(
        (loading, "LoadRequest", _believes_every_log), found="has records in the log twice", seed=238
    ),
    "tells no latecomer": _mutant((Watchers, "watch", _never_late), found="has read everything", seed=108),
    "gives no arena back": _mutant(also=_keeps_the_arena, found="are lent to nobody", seed=0),
    "cleans what has grown": _mutant(
        (partition_requests, "last_segment_below", _below_the_watermark),
        shape=_held_up,
        found="went when it was",
        seed=133,
    ),
    "leaves deletions to the dead": _mutant(
        (ReplicaRemovals, "worker_ended", _keeps_the_ended), found="maker-brief is done", seed=389
    ),
    "reads open transactions": _mutant(
        (PartitionSlot, "upper_bound", _reads_to_the_watermark),
        (PartitionSlot, "upper_offset", _ends_at_the_watermark),
        found="the last stable offset is",
        seed=0,
    ),
    "names no aborted transaction": _mutant((LogReaders, "aborted", _names_nobody), found=", aborted: ", seed=2),
    "forgets transactions": _mutant((Runtime, "_load", _remembers_nothing), found="was producer", seed=2),
    "leaves decisions undone": _mutant((Runtime, "load_step", _leaves_undone), found="nothing is held back", seed=755),
    "believes the page cache": _mutant(
        (PendingFlush, "hold_back", _holds_nothing_back), shape=_without_power, found="the record at", seed=504
    ),
    "swaps in what is on no disk": _mutant(
        (rewriting, "_sync", _leaves_it_in_the_page_cache), shape=_without_power, found="is not in the log", seed=1076
    ),
    "brings back what was deleted": _mutant(
        (LatestOfEachKey, "retains", _keeps_values), found="the newest in the log is at", seed=97
    ),
    "does not answer for the dead": _mutant(
        (ProduceRequests, "worker_lost", _forgets_the_dead), found="produce requests are not answered", seed=27
    ),
}
"""Not among them: a broker without grace periods. Nobody who reads can tell, as every handle is checked by generation
and topic id as well; it takes two mistakes for a client to see something. Nor one that does not look again before it
lets an owner sleep (`FetchWatches.has_changes`, which has tests of its own): a fetch is measured once more when its
time is over, so that it is late, and the clocks here pass over that."""
