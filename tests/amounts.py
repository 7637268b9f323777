"""How much randomized, killing and bulk tests do: per commit, and in the long run of `make test-long`.

One row for each number. The environment variable KAFKAD_TEST_AMOUNTS chooses a column and replaces single amounts by
name; its words are separated by spaces:

    KAFKAD_TEST_AMOUNTS=long
    KAFKAD_TEST_AMOUNTS="first_seed=1234 cluster_stories=1"
    KAFKAD_TEST_AMOUNTS="long cluster_stories=100000"

Any other word is an error. No other place in `tests` reads an amount from the environment.

Recorded seeds are fixed: those that find mutants, and those that found a defect once. The other seeds are random: they
count from `first_seed`. The first process of a run draws that number, pytest prints it, and the processes that it
starts inherit it in the same variable.
"""

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

VARIABLE = "KAFKAD_TEST_AMOUNTS"
COMMIT, LONG = "commit", "long"
FIRST_SEED = "first_seed"
FIRST_SEEDS = 1_000_000_000
"""A first seed is drawn below this."""


class WrongAmounts(ValueError):
    """KAFKAD_TEST_AMOUNTS has a word that means nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    commit: int
    long: int
    cost: str
    """What one unit costs, roughly: CPU of one core where nothing else is said."""


_IF_LOST = "the same, and only if the recorded seed of a mutant is lost"

ROWS = (
    # Whole brokers in one thread: tests/simulation.
    Row("broker_stories", 50, 10_000, "0.3 s"),
    Row("broker_mutant_seeds", 400, 400, _IF_LOST),
    Row("cluster_stories", 50, 20_000, "0.4 s"),
    Row("cluster_mutant_seeds", 150, 300, _IF_LOST),
    Row("administration_mutant_seeds", 60, 150, _IF_LOST),
    Row("controller_stories", 300, 50_000, "17 ms"),
    Row("controller_mutant_seeds", 600, 2_000, _IF_LOST),
    # Parts of a broker in memory: tests/core and tests/processes.
    Row("swaps", 250, 3_000, "33 ms"),
    Row("led_partition_lives", 200, 50_000, "2.5 ms, twice"),
    Row("led_partition_mutant_seeds", 2_000, 5_000, _IF_LOST),
    Row("follower_lives", 1_000, 100_000, "5.5 ms"),
    Row("follower_mutant_seeds", 400, 2_000, _IF_LOST),
    Row("transactional_log_lives", 300, 50_000, "14 ms"),
    Row("transaction_lives", 400, 50_000, "10 ms"),
    Row("classic_group_lives", 500, 100_000, "5.5 ms"),
    Row("consumer_group_lives", 200, 30_000, "24 ms"),
    Row("coordinator_lives", 1_000, 100_000, "1.8 ms"),
    Row("room_lives", 200, 50_000, "15 ms"),
    Row("marker_lives", 2_000, 200_000, "0.2 ms"),
    Row("producer_id_lives", 500, 50_000, "0.3 ms"),
    Row("backoff_lives", 2_000, 200_000, "0.2 ms"),
    Row("open_file_limits", 3_000, 100_000, "20 µs"),
    Row("compacted_log_mutant_seeds", 400, 400, "0.7 s, until the mutant is found"),
    # Examples of Hypothesis.
    Row("examples", 100, 2_000, "a few ms, for each test that has no row of its own"),
    Row("record_examples", 300, 10_000, "2 ms"),
    Row("state_machine_examples", 60, 2_000, "10 ms"),
    Row("partition_log_examples", 100, 5_000, "20 ms"),
    Row("compacted_log_examples", 50, 5_000, "22 ms"),
    Row("cleaning_examples", 40, 5_000, "20 ms"),
    Row("delta_examples", 50, 1_000, "2 ms"),
    Row("stream_examples", 150, 3_000, "20 ms"),
    Row("export_table_examples", 25, 500, "100 ms, for each kind of table"),
    # Exports that are interrupted: tests/lakehouse/export.
    Row("crash_point_density", 1, 5, "12 crash points of each kind of table, 12 s a kind"),
    Row("lost_credentials_step", 29, 1, "10 s for each of 12 tests with a step of 29, 29 times that with 1"),
    # Real processes: tests/daemon.
    Row("kill_seed", 1, 1, "no time: where the seeds of all kills begin"),
    Row("kills", 18, 500, "4 s"),
    Row("transaction_runs", 2, 50, "8 s"),
    Row("compaction_kill_seconds", 20, 1_800, "a second"),
    Row("archive_rounds", 6, 100, "2 s"),
    Row("swept_fields_step", 4, 1, "35 s for all APIs with a step of 4, four times that with 1"),
    Row("fuzz_examples", 15, 300, "1 s for all APIs in all versions"),
    # Beside Apache Kafka: tests/compat.
    Row("corpus_megabytes", 60, 1_000, "1 s"),
    Row("churn_records", 12_000, 120_000, "3 ms"),
    Row("transaction_conversations", 60, 1_000, "0.1 s, for each level"),
    Row("transaction_timeouts", 20, 200, "0.5 s, for each level"),
    Row("transactional_log_conversations", 40, 1_000, "0.5 s"),
    Row("verified_records", 4_000, 100_000, "1 ms"),
    # Exports by Spark: tests/spark.
    Row("lake_records", 40_000, 1_000_000, "0.5 ms, four times"),
    Row("export_kill_runs", 5, 12, "of each engine, source and kind of table, with the next two rows"),
    Row("local_export_kills", 4, 50, "5 s"),
    Row("spark_export_kills", 2, 50, "15 s"),
    # A cluster on three ZooKeepers: tests/chaos.
    Row("chaos_seconds", 120, 3_600, "a second"),
)
_BY_NAME: Mapping[str, Row] = {row.name: row for row in ROWS}


def amount(name: str) -> int:
    """Of this run."""
    return chosen(os.environ.get(VARIABLE, ""))[name]


def first_seed() -> int:
    """Where the random seeds of this run begin: as the variable says, or drawn and added to it."""
    words = os.environ.get(VARIABLE, "")
    if FIRST_SEED not in chosen(words):
        os.environ[VARIABLE] = f"{words} {FIRST_SEED}={random.randrange(FIRST_SEEDS)}".strip()
    return amount(FIRST_SEED)


def random_seeds(name: str) -> range:
    """As many seeds as the row says, from the first one on."""
    return range(first_seed(), first_seed() + amount(name))


def seeds_of_tests(name: str, at_once: int) -> list[range]:
    """The same, in portions of one test each."""
    seeds = random_seeds(name)
    return [seeds[at : at + at_once] for at in range(0, len(seeds), at_once)]


@cache
def chosen(words: str) -> Mapping[str, int]:
    """What a value of the variable means: an amount for each row, and a first seed if it names one."""
    column, replaced = COMMIT, {}
    for word in words.split():
        name, is_one, text = word.partition("=")
        if word in (COMMIT, LONG):
            column = word
        elif is_one and name in {*_BY_NAME, FIRST_SEED} and text.isdecimal():
            replaced[name] = int(text)
        else:
            names = ", ".join([FIRST_SEED, *_BY_NAME])
            raise WrongAmounts(f"{VARIABLE}: {word!r} is not {COMMIT}, {LONG} or NAME=NUMBER with one of {names}")
    return {row.name: row.commit if column == COMMIT else row.long for row in ROWS} | replaced
