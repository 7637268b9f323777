"""A leader with one fault loses committed records in the played cluster; a right one never does."""

from collections.abc import Collection

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.replication.leading.led_partition import CommittedPartitionState, FollowerProgress, LedPartition
from tests.core.replication.leading.played_cluster import Lost, PlayedCluster
from tests.mutants import find_out

FORGETFUL = 7
"""This seed finds a controller that forgets epochs of brokers."""

pytestmark = pytest.mark.interpreted


class CountsOldEpochs(LedPartition):
    def fetched(self, progress: FollowerProgress, log_end: int) -> bool:
        return super().fetched(progress._replace(leader_epoch=self.state.leader_epoch), log_end)


class IgnoresTheMaximalIsr(LedPartition):
    @property
    def maximal_isr(self) -> frozenset[int]:
        return frozenset(self.state.isr)

    def high_watermark(self, log_end: int, min_isr: int, now_ms: int, live: Collection[int]) -> int:
        return super().high_watermark(log_end, min_isr, now_ms, ())


class ForgetsWhoLeaves(LedPartition):
    """What it asks for counts at once."""

    @property
    def maximal_isr(self) -> frozenset[int]:
        return frozenset(self.requested_isr or self.state.isr)


class TrustsThoseWhoHaveNotFetched(LedPartition):
    def high_watermark(self, log_end: int, min_isr: int, now_ms: int, live: Collection[int]) -> int:
        silent = [each for each in self._followers.values() if each.log_end_offset < 0]
        for each in silent:
            each.log_end_offset = log_end
        end = super().high_watermark(log_end, min_isr, now_ms, live)
        for each in silent:
            each.log_end_offset = -1
        return end


class TakesWhoIsBehind(LedPartition):
    def _joining(self, high_watermark: int, live: Collection[int]) -> int | None:
        return super()._joining(min(high_watermark, 1), live) if self.epoch_start <= 1 else self._any()

    def _any(self) -> int | None:
        return next((each for each in self._followers if each not in self.state.isr), None)


class CommitsAlone(LedPartition):
    def high_watermark(self, log_end: int, min_isr: int, now_ms: int, live: Collection[int]) -> int:
        return log_end


class CountsFormerLives(LedPartition):
    """It does not say in which life of a broker it has counted the progress."""

    def _request(self, isr: tuple[int, ...]) -> tuple[int, ...]:
        self.requested_epochs = tuple(-1 for _ in super()._request(isr))
        return isr


class AsksAgainForTheLivesOfToday(LedPartition):
    def begin_isr_change(
        self, log_end: int, high_watermark: int, now_ms: int, live: Collection[int]
    ) -> tuple[int, ...] | None:
        asked = super().begin_isr_change(log_end, high_watermark, now_ms, live)
        if asked is not None:
            self._request(asked)
        return asked


class TakesAnyAnswer(LedPartition):
    """It takes an answer that came late for that to the change that is under way."""

    def isr_change_completed(self, code: int, state: CommittedPartitionState, now_ms: int) -> bool:
        if code == ErrorCode.NONE and state.partition_epoch == self.state.partition_epoch:
            self._requested_isr = None
        return super().isr_change_completed(code, state, now_ms)


class TakesARefusalForAState(LedPartition):
    """The controller has another state, which may be the one that was asked for."""

    def isr_change_completed(self, code: int, state: CommittedPartitionState, now_ms: int) -> bool:
        if code:
            self._requested_isr = None
            return False
        return super().isr_change_completed(code, state, now_ms)


MUTANTS = {
    CountsOldEpochs: 1100,
    IgnoresTheMaximalIsr: 0,
    ForgetsWhoLeaves: 0,
    TrustsThoseWhoHaveNotFetched: 0,
    TakesWhoIsBehind: 0,
    CommitsAlone: 0,
    CountsFormerLives: 7,
    AsksAgainForTheLivesOfToday: 863,
    TakesAnyAnswer: 70,
    TakesARefusalForAState: 6,
}
"""With the seed that found each, by the only invariant: a committed record is where it must be."""


def is_lost(cluster: PlayedCluster) -> bool:
    try:
        cluster.run(1_000)
    except Lost:
        return True
    return False


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_faulty_leader_is_found_out(mutant: type[LedPartition]) -> None:
    find_out(
        mutant.__name__,
        MUTANTS[mutant],
        "led_partition_mutant_seeds",
        lambda seed: is_lost(PlayedCluster(seed, mutant)),
    )


@pytest.mark.parametrize("seed", sorted({*MUTANTS.values(), FORGETFUL}))
@pytest.mark.parametrize("names_epochs", [True, False])
def test_without_a_fault_nothing_is_lost_in_the_same_life(seed: int, *, names_epochs: bool) -> None:
    assert not is_lost(PlayedCluster(seed, names_epochs=names_epochs))


def test_without_epochs_on_the_wire_a_controller_that_lets_former_lives_be_counted_is_found_out() -> None:
    find_out(
        "a forgetful controller",
        FORGETFUL,
        "led_partition_mutant_seeds",
        lambda seed: is_lost(PlayedCluster(seed, names_epochs=False, forgetful=True)),
    )
