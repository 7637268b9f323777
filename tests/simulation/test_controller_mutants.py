"""Controllers of a cluster with one rule broken each: stories of `test_elected_controller` find out every one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from kafkad.core.cluster.control_requests import AlterPartitionPartition
from kafkad.core.controller.elected import announcing, reassigning
from kafkad.core.controller.elected.announcements import Announcer
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.electorate import Electorate
from kafkad.core.controller.image import Topic
from kafkad.core.controller.startup import term
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.controller.topics.assignment import Assignment
from kafkad.core.coordination_store import Change, Check, CoordinationError, CoordinationStore, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.core.types import RECOVERED, BrokerId, TopicPartition
from tests.mutants import find_out
from tests.simulation import test_elected_controller
from tests.simulation.cluster.administration_mutants import one_is_enough
from tests.simulation.test_elected_controller import UnreliableStore, play

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Mutant:
    breaks: Callable[[Patch], None]
    found: str
    """What the invariant says that has to find it."""
    seed: int
    """It was found by this one."""


def _elects_outside_of_the_isr(patch: Patch) -> None:
    def elect(_strategy: object, *, assignment: Sequence[BrokerId], live: frozenset[BrokerId], **_: object) -> object:
        return next((each for each in assignment if each in live), None)

    patch.setattr("kafkad.core.controller.electorate.elect", elect)


def _takes_all_who_live_for_in_sync(patch: Patch) -> None:
    """Whoever is elected begins with every live replica."""
    next_state = Electorate.next_state

    def everybody(
        self: Electorate, at: TopicPartition, assignment: Assignment, state: PartitionState, *, unclean: bool = False
    ) -> PartitionState | None:
        moved = next_state(self, at, assignment, state, unclean=unclean)
        isr = tuple(each for each in assignment if self.is_online(at, each))
        return None if moved is None else replace(moved, isr=isr or moved.isr)

    patch.setattr(Electorate, "next_state", everybody)


def _forgets_who_was_in_sync_last(patch: Patch) -> None:
    """The ISR of a partition without live replicas is empty, so that any of them may lead."""
    next_state = Electorate.next_state

    def nobody(
        self: Electorate, at: TopicPartition, assignment: Assignment, state: PartitionState, *, unclean: bool = False
    ) -> PartitionState | None:
        moved = next_state(self, at, assignment, state, unclean=unclean)
        return None if moved is None else replace(moved, isr=tuple(e for e in moved.isr if self.is_online(at, e)))

    patch.setattr(Electorate, "next_state", nobody)


def _elects_in_the_same_epoch(patch: Patch) -> None:
    next_state = Electorate.next_state

    def same(
        self: Electorate, at: TopicPartition, assignment: Assignment, state: PartitionState, *, unclean: bool = False
    ) -> PartitionState | None:
        moved = next_state(self, at, assignment, state, unclean=unclean)
        return None if moved is None else replace(moved, leader_epoch=state.leader_epoch)

    patch.setattr(Electorate, "next_state", same)


def _says_nothing_of_unclean_elections(patch: Patch) -> None:
    patch.setattr("kafkad.core.controller.electorate.RECOVERING", RECOVERED)


def _elects_who_cannot_read_its_directory(patch: Patch) -> None:
    patch.setattr(Electorate, "_electable", lambda self, _at: self._live)


def _writes_after_its_term(patch: Patch) -> None:
    """No write looks whether the term is over; partition epochs do not either."""

    def pipelined(
        self: UnreliableStore, changes: Sequence[Change], *, guard: Check | None = None
    ) -> list[Outcome | CoordinationError]:
        return pipeline(self, changes)

    pipeline = UnreliableStore.pipelined
    patch.setattr(UnreliableStore, "pipelined", pipelined)
    patch.setattr(MetadataTree, "_commit", lambda self, changes: self._store.transaction(list(changes)))


def _begins_a_term_in_the_epoch_of_the_last(patch: Patch) -> None:
    def claim(store: CoordinationStore, broker_id: int, now_ms: int) -> term.Term:
        claimed = before(store, broker_id, now_ms)
        store.set_data("/controller_epoch", b"1")
        return term.Term(1, Check("/controller_epoch", claimed.guard.version + 1))

    before = term.claim
    patch.setattr(test_elected_controller, "claim", claim)


def _overwrites_states_that_it_has_not_seen(patch: Patch) -> None:
    set_states = MetadataTree.set_states

    def overwrite(self: MetadataTree, states: Mapping[TopicPartition, PartitionState]) -> None:
        set_states(self, {at: replace(state, partition_epoch=-1) for at, state in states.items()})

    patch.setattr(MetadataTree, "set_states", overwrite)


def _check_but(allowed: ErrorCode) -> Callable[[Patch], None]:
    check = ElectedController._check

    def gentle(self: ElectedController, sender: int, topic: Topic | None, wanted: AlterPartitionPartition) -> ErrorCode:
        code = check(self, sender, topic, wanted)
        return ErrorCode.NONE if code is allowed else code

    return lambda patch: patch.setattr(ElectedController, "_check", gentle)


def _elects_who_shuts_down(patch: Patch) -> None:
    def everybody(self: ElectedController) -> Electorate:
        return Electorate(self._election, self.image.brokers, frozenset(), self._announcer.offline)

    patch.setattr(announcing.AnnouncingController, "_electorate", everybody)


def _tells_newcomers_nothing(patch: Patch) -> None:
    def tell(self: ElectedController, brokers: Sequence[int] | None = None) -> None:
        if brokers is None:
            before(self)

    before = ElectedController.announce_all
    patch.setattr(ElectedController, "announce_all", tell)


def _tells_suspects_nothing(patch: Patch) -> None:
    def live_only(self: Announcer, *args: object, **named: object) -> object:
        told = roles(self, *args, **named)  # type: ignore[arg-type]
        return [row for row in told if row[0] not in self.unreachable]

    roles = Announcer.roles
    patch.setattr(Announcer, "roles", live_only)


def _forgets_a_deletion_before_all_have_made_it(patch: Patch) -> None:
    def by_all(self: ElectedController, names: Sequence[str], broker: int) -> None:
        for name in self.deletions.keys() & set(names):
            self.deletions[name].replicas.clear()
        replicas_deleted(self, names, broker)

    replicas_deleted = ElectedController.replicas_deleted
    patch.setattr(ElectedController, "replicas_deleted", by_all)


def _ends_a_reassignment_early(patch: Patch) -> None:
    """As soon as one of the new replicas could lead."""
    patch.setattr(reassigning, "ended", one_is_enough)


def _stores_assignments_before_states(patch: Patch) -> None:
    """Who reads the tree in between takes the new replicas for those of the old epoch."""
    take, set_states = reassigning.ReassigningController._store_steps, MetadataTree.set_states
    set_assignments = MetadataTree.set_all_assignments

    def reversed_take(self: reassigning.ReassigningController, steps: Sequence[reassigning.ReassignmentStep]) -> None:
        later: list[Mapping[TopicPartition, PartitionState]] = []
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(MetadataTree, "set_states", lambda _self, states: later.append(states))
            inner.setattr(MetadataTree, "set_all_assignments", assignments_first(later))
            take(self, steps)

    def assignments_first(later: list[Mapping[TopicPartition, PartitionState]]) -> Callable[..., None]:
        def write(self: MetadataTree, topics: Mapping[str, object]) -> None:
            set_assignments(self, topics)  # type: ignore[arg-type]
            for states in later:
                set_states(self, states)

        return write

    patch.setattr(reassigning.ReassigningController, "_store_steps", reversed_take)


MUTANTS = {
    "elects outside of the ISR": Mutant(_elects_outside_of_the_isr, "leads outside of", seed=0),
    "takes all who live for in sync": Mutant(
        _takes_all_who_live_for_in_sync, "came in sync without their leader's word", seed=4
    ),
    "forgets who was in sync last": Mutant(_forgets_who_was_in_sync_last, "nobody is in sync", seed=0),
    "elects in the same epoch": Mutant(_elects_in_the_same_epoch, "two leaders in one epoch", seed=0),
    "says nothing of unclean elections": Mutant(_says_nothing_of_unclean_elections, "and nobody is told", seed=0),
    "elects who cannot read its directory": Mutant(
        _elects_who_cannot_read_its_directory, "is led from a directory that failed", seed=0
    ),
    "writes after its term": Mutant(_writes_after_its_term, "an earlier controller changed a topic", seed=2),
    "begins a term in the epoch of the last": Mutant(
        _begins_a_term_in_the_epoch_of_the_last, "was told of other states", seed=12
    ),
    "overwrites states that it has not seen": Mutant(
        _overwrites_states_that_it_has_not_seen, "a state that nobody can read was overwritten", seed=16
    ),
    "takes an ISR of an earlier leader epoch": Mutant(_check_but(ErrorCode.FENCED_LEADER_EPOCH), ") changed (", seed=2),
    "takes an ISR of an earlier partition epoch": Mutant(
        _check_but(ErrorCode.INVALID_UPDATE_VERSION), ") changed (", seed=117
    ),
    "takes an ISR of who does not lead": Mutant(_check_but(ErrorCode.INVALID_REQUEST), ") changed (", seed=3),
    "takes the dead into the ISR": Mutant(_check_but(ErrorCode.INELIGIBLE_REPLICA), "came in sync, alive are", seed=16),
    "elects who shuts down": Mutant(_elects_who_shuts_down, "is led on, though", seed=0),
    "tells newcomers nothing": Mutant(_tells_newcomers_nothing, "a deletion is never finished", seed=0),
    "tells suspects nothing": Mutant(_tells_suspects_nothing, "was told of other roles", seed=217),
    "forgets a deletion before all have made it": Mutant(
        _forgets_a_deletion_before_all_have_made_it, "was told of other roles", seed=50
    ),
    "ends a reassignment early": Mutant(_ends_a_reassignment_early, " became ", seed=0),
    "stores assignments before states": Mutant(_stores_assignments_before_states, "has two assignments", seed=50),
}
"""Not among them: a controller that sends no StopReplica to replicas which a reassignment removed. Brokers see in
UpdateMetadata that they have no replica any more. Nor one that does not tell brokers that a topic is deleted, or not
those that register meanwhile: each compares its topics with the store's when it registers and when the controller
changes, which happens in every seed after the deletion. Nor one that asks who has deleted its replicas once more, or
that has replicas deleted which a reassignment had removed of an earlier topic of that name: the seeds do not come so
far. All of these have tests of their own in `tests/core/controller/elected`.
"""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_faulty_controller_is_found_out(name: str, monkeypatch: Patch) -> None:
    mutant = MUTANTS[name]
    mutant.breaks(monkeypatch)
    find_out(name, mutant.seed, "controller_mutant_seeds", lambda seed: mutant.found in what_went_wrong(seed))


def what_went_wrong(seed: int) -> str:
    try:
        play(seed)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("seed", sorted({mutant.seed for mutant in MUTANTS.values()}))
def test_without_a_fault_nothing_goes_wrong_in_the_same_story(seed: int) -> None:
    play(seed)
