"""Amounts of tests: two columns, replaced by name, and the seeds that a run draws."""

import os
import re
from pathlib import Path

import pytest

from tests import amounts
from tests.amounts import FIRST_SEED, ROWS, VARIABLE, WrongAmounts, amount, chosen, first_seed, seeds_of_tests
from tests.mutants import RecordedSeedLost, find_out

TESTS = Path(__file__).parent
NO_AMOUNTS = {
    *("KAFKAD_TESTED", "KAFKAD_INTERPRETED", "KAFKAD_KAFKA_LIBS", "KAFKAD_KAFKA_ON_ZOOKEEPER_LIBS"),
    *("KAFKAD_APICURIO", "KAFKAD_COMPAT_SUBJECT", "KAFKAD_PACKAGE_LAB"),
}


@pytest.fixture
def variable(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv(VARIABLE, "")
    return monkeypatch


def test_a_commit_is_the_default_and_the_long_run_does_no_less() -> None:
    assert chosen("") == chosen("commit") == {row.name: row.commit for row in ROWS}
    long = chosen("long")
    assert [row.name for row in ROWS if long[row.name] < row.commit and not row.name.endswith("_step")] == []
    assert len(long) == len(ROWS), "two rows have one name"


def test_single_amounts_are_replaced_by_name() -> None:
    assert chosen("long cluster_stories=7 first_seed=42") == {**chosen("long"), "cluster_stories": 7, "first_seed": 42}
    assert chosen("kills=3") == {**chosen("commit"), "kills": 3}


@pytest.mark.parametrize("word", ["lon", "cluster_storys=7", "cluster_stories", "kills=", "kills=-1", "=7"])
def test_a_word_that_means_nothing_is_an_error(word: str) -> None:
    with pytest.raises(WrongAmounts, match=re.escape(repr(word))):
        chosen(f"long {word}")


def test_a_first_seed_is_drawn_once_and_handed_to_other_processes(variable: pytest.MonkeyPatch) -> None:
    variable.setenv(VARIABLE, "long kills=3")
    first = first_seed()
    assert os.environ[VARIABLE] == f"long kills=3 {FIRST_SEED}={first}"
    assert first_seed() == first
    assert amount("kills") == 3


def test_the_seeds_of_a_row_are_divided_among_tests(variable: pytest.MonkeyPatch) -> None:
    variable.setenv(VARIABLE, "first_seed=1000 cluster_stories=25")
    assert seeds_of_tests("cluster_stories", 10) == [range(1000, 1010), range(1010, 1020), range(1020, 1025)]


def test_each_row_is_used_and_nothing_else_reads_an_amount_from_the_environment() -> None:
    texts = [path.read_text() for path in TESTS.rglob("*.py") if path not in (Path(amounts.__file__), Path(__file__))]
    assert [row.name for row in ROWS if not any(f'"{row.name}"' in text for text in texts)] == []
    read = {name for text in texts for name in re.findall(r"""environ(?:\.get\(|\[)["'](KAFKAD_\w+)""", text)}
    assert read <= NO_AMOUNTS


def test_a_mutant_is_found_by_its_recorded_seed(variable: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    find_out("m", 7, "kills", lambda seed: seed == 7)
    assert list(recwarn) == []


def test_a_recorded_seed_that_is_lost_is_replaced_in_the_summary(variable: pytest.MonkeyPatch) -> None:
    variable.setenv(VARIABLE, "kills=3")
    with pytest.warns(RecordedSeedLost, match="recorded seed of 'm' is now 10"):
        find_out("m", 7, "kills", lambda seed: seed >= 10)


def test_a_mutant_that_no_seed_finds_is_a_failure(variable: pytest.MonkeyPatch) -> None:
    variable.setenv(VARIABLE, "kills=3")
    with pytest.raises(pytest.fail.Exception, match="'m' is found by no seed from 7 to 10"):
        find_out("m", 7, "kills", lambda seed: seed >= 11)
