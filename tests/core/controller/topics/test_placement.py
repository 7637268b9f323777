import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkad.core.controller.topics.placement import Place, Placement, SlotTable
from kafkad.core.errors import ErrorCode, KafkaError

SIZE = 12


class SlotsUnderGrace(RuleBasedStateMachine):
    """The naive model: a slot may be taken when nobody has it and nobody may still look at it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = SlotTable(size=SIZE)
        self.taken: set[int] = set()
        self.resting: dict[int, int] = {}
        self.version = 0

    @rule(count=st.integers(0, 5))
    def take(self, count: int) -> None:
        if count > self.table.available():
            return
        slots = self.table.take(count)
        assert len(set(slots)) == count
        assert not set(slots) & (self.taken | set(self.resting))
        self.taken |= set(slots)

    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        slots = data.draw(st.sets(st.sampled_from(sorted(self.taken)))) if self.taken else set()
        self.version += 1
        self.table.free(sorted(slots), self.version)
        self.taken -= slots
        self.resting |= dict.fromkeys(slots, self.version)

    @rule(behind=st.integers(0, 3))
    def acknowledge(self, behind: int) -> None:
        acknowledged = self.version - behind
        self.table.acknowledged(acknowledged)
        self.resting = {slot: version for slot, version in self.resting.items() if version > acknowledged}

    @invariant()
    def what_is_neither_taken_nor_resting_is_available(self) -> None:
        assert self.table.available() == SIZE - len(self.taken) - len(self.resting)


TestSlotsUnderGrace = SlotsUnderGrace.TestCase


def test_slots_of_a_life_before_rest_until_the_first_version_is_acknowledged() -> None:
    table = SlotTable([0, 3], ever_used=5, size=8)
    assert table.take(1) == [5]
    table.free_inherited(version=9)
    assert table.take(1) == [6]
    table.acknowledged(8)
    assert table.take(1) == [7]
    assert table.available() == 0
    table.acknowledged(9)
    assert table.take(3) == [1, 2, 4]


@given(st.lists(st.integers(1, 7), max_size=6), st.integers(1, 4), st.integers(1, 4))
def test_workers_and_directories_differ_by_one_partition_at_most(
    counts: list[int], workers: int, directories: int
) -> None:
    placement = Placement(SlotTable(), workers, range(directories))
    places = [place for count in counts for place in placement.take(count)]
    owners, log_dirs = [place.owner for place in places], [place.log_dir for place in places]
    for chosen, total in ((owners, workers), (log_dirs, directories)):
        loads = [chosen.count(each) for each in range(total)]
        assert max(loads) - min(loads) <= 1


def test_the_directory_with_the_fewest_partitions_is_chosen_and_offline_ones_never() -> None:
    placement = Placement(SlotTable([0, 1]), 1, [0, 1, 2])
    placement.occupy(Place(0, 0, 0))
    placement.occupy(Place(1, 0, 1))
    assert [place.log_dir for place in placement.take(1)] == [2]
    placement.directory_failed(2)
    assert {place.log_dir for place in placement.take(4)} == {0, 1}


def test_without_a_directory_or_a_slot_nothing_is_taken() -> None:
    with pytest.raises(KafkaError, match="offline") as refused:
        Placement(SlotTable(), 1, []).take(1)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    full = Placement(SlotTable(size=2), 1, [0])
    with pytest.raises(KafkaError, match=r"space for 2 more partition\(s\), 3 were requested"):
        full.take(3)
    assert len(full.take(2)) == 2


def test_cordoned_directories_get_no_new_partitions() -> None:
    placement = Placement(SlotTable(), workers=1, online_dirs=[0, 1, 2])
    placement.cordon(frozenset({0, 2}))
    assert {place.log_dir for place in placement.take(3)} == {1}
    placement.cordon(frozenset())
    assert {place.log_dir for place in placement.take(4)} == {0, 2}, "they have fewer than the other"


def test_without_a_directory_that_is_not_cordoned_nothing_is_placed() -> None:
    placement = Placement(SlotTable(), workers=1, online_dirs=[0, 1])
    placement.cordon(frozenset({0, 1}))
    placement.require(0)
    with pytest.raises(KafkaError) as refused:
        placement.require(1)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
