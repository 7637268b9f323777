"""Which bytes are lent out: none twice, none lost, lowest addresses first."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkad.core.arena_space import ALIGNMENT, ArenaSpace

SIZE = 64 * ALIGNMENT


def test_lowest_free_extent_that_fits_is_taken() -> None:
    space = ArenaSpace(SIZE)
    first, second, third = (space.reserve(ALIGNMENT * 4) for _ in range(3))
    assert (first, second, third) == (0, 4 * ALIGNMENT, 8 * ALIGNMENT)
    space.release(0)
    assert space.reserve(ALIGNMENT * 5) == 12 * ALIGNMENT
    assert space.reserve(ALIGNMENT * 4) == 0


def test_largest_request_fits_an_empty_space_and_nothing_beside_it() -> None:
    space = ArenaSpace(SIZE)
    assert space.reserve(SIZE) == 0
    assert space.reserve(1) is None
    assert space.release(0)
    assert space.reserve(SIZE) == 0


def test_request_of_no_bytes_has_a_place_of_its_own() -> None:
    space = ArenaSpace(SIZE)
    assert space.reserve(0) == 0
    assert space.reserve(0) == ALIGNMENT


def test_extent_is_free_after_its_last_holder() -> None:
    space = ArenaSpace(SIZE)
    space.reserve(100)
    space.retain(0)
    space.retain(0)
    assert [space.release(0), space.release(0), space.release(0)] == [False, False, True]
    assert space.is_empty


def test_peak_is_the_end_of_the_highest_extent_since_it_was_forgotten() -> None:
    space = ArenaSpace(SIZE)
    low = space.reserve(ALIGNMENT)
    high = space.reserve(ALIGNMENT * 3)
    assert high is not None and low is not None
    space.release(high)
    assert space.peak == 4 * ALIGNMENT
    space.forget_peak()
    assert space.peak == ALIGNMENT


class ArenaSpaceAgainstModel(RuleBasedStateMachine):
    """The model marks each cache line as free or as lent out under an offset."""

    def __init__(self) -> None:
        super().__init__()
        self.space = ArenaSpace(SIZE)
        self.lines: list[int | None] = [None] * (SIZE // ALIGNMENT)
        self.references: dict[int, int] = {}

    @rule(length=st.integers(0, SIZE + 1))
    def reserve(self, length: int) -> None:
        needed = max(1, -(-length // ALIGNMENT))
        fits = (
            at
            for at in range(len(self.lines) - needed + 1)
            if all(line is None for line in self.lines[at : at + needed])
        )
        expected = next(fits, None)
        offset = self.space.reserve(length)
        assert offset == (None if expected is None else expected * ALIGNMENT)
        if offset is not None and expected is not None:
            self.lines[expected : expected + needed] = [offset] * needed
            self.references[offset] = 1

    @precondition(lambda self: self.references)
    @rule(data=st.data())
    def retain(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.references)))
        self.space.retain(offset)
        self.references[offset] += 1

    @precondition(lambda self: self.references)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.references)))
        self.references[offset] -= 1
        is_freed = self.references[offset] == 0
        assert self.space.release(offset) is is_freed
        if is_freed:
            del self.references[offset]
            self.lines = [None if line == offset else line for line in self.lines]

    @invariant()
    def counts_agree(self) -> None:
        free = self.lines.count(None) * ALIGNMENT
        assert (self.space.free_bytes, self.space.used_bytes) == (free, SIZE - free)
        assert self.space.is_empty is not bool(self.references)
        assert self.space.extents() == {offset: self.lines.count(offset) * ALIGNMENT for offset in self.references}


TestArenaSpaceAgainstModel = ArenaSpaceAgainstModel.TestCase
