"""Which log is a cleaner found to have died of?"""

from kafkad.core.metrics.catalogue import BLOCK_WORDS
from kafkad.processes.cleaner.unfinished_work import UnfinishedWork, Work


def test_who_died_twice_at_one_log_leaves_it_alone() -> None:
    block = [0] * BLOCK_WORDS
    for deaths in (0, 0, 2, 3):
        life = UnfinishedWork(block)
        assert (life.take_deaths(4), life.take_deaths(5)) == (0, deaths)
        assert life.take_deaths(5) == 0, "it is told once"
        life.begin(5, Work.COMPACTING)


def test_deaths_at_different_logs_blame_none() -> None:
    block = [0] * BLOCK_WORDS
    for slot in (1, 2, 1, 2):
        life = UnfinishedWork(block)
        assert [life.take_deaths(each) for each in range(4)] == [0, 0, 0, 0]
        life.begin(slot, Work.PLANNING)


def test_a_log_that_was_done_since_is_not_blamed() -> None:
    block = [0] * BLOCK_WORDS
    UnfinishedWork(block).begin(0, Work.COMPACTING)
    life = UnfinishedWork(block)
    life.begin(0, Work.PLANNING)
    life.end(0, Work.PLANNING)
    life.begin(0, Work.COMPACTING)
    life.pause()
    life.begin(0, Work.COMPACTING)
    life.end(0, Work.COMPACTING)
    life.begin(0, Work.COMPACTING)
    assert UnfinishedWork(block).take_deaths(0) == 0


def test_planning_that_works_does_not_absolve_the_compaction() -> None:
    block = [0] * BLOCK_WORDS
    for deaths in (0, 0, 2):
        life = UnfinishedWork(block)
        life.begin(0, Work.PLANNING)
        life.end(0, Work.PLANNING)
        assert life.take_deaths(0) == deaths
        life.begin(0, Work.COMPACTING)


def test_who_dies_while_it_does_nothing_blames_nobody() -> None:
    block = [0] * BLOCK_WORDS
    for _ in range(4):
        life = UnfinishedWork(block)
        life.begin(3, Work.COMPACTING)
        life.pause()
        assert life.take_deaths(3) == 0
