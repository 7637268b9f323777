"""The limits of open files and memory that are enough for a broker."""

import random

from kafkad.core.supervision.machine_limits import (
    FEWEST_CONNECTIONS,
    SEARCHES,
    OpenFiles,
    recommended_memory,
    required_by_process,
)
from tests.amounts import random_seeds


def test_least_limit_gives_the_fewest_connections_and_one_less_does_not() -> None:
    for processes in range(1, 65):
        least = OpenFiles(limit=0, processes=processes).least
        assert OpenFiles(limit=least, processes=processes).connections >= FEWEST_CONNECTIONS
        assert OpenFiles(limit=least - 1, processes=processes).connections < FEWEST_CONNECTIONS


def test_wanted_limit_is_enough_for_connections_and_files_of_every_process() -> None:
    for seed in random_seeds("open_file_limits"):
        chosen = random.Random(seed)
        networks, workers = chosen.randint(1, 20), chosen.randint(1, 20)
        connections, partitions = chosen.randrange(100_000), chosen.randrange(200_000)
        processes = networks + workers + 4
        limit = OpenFiles(limit=0, processes=processes).recommended_limit(
            networks=networks, workers=workers, connections=connections, partitions=partitions
        )
        had = OpenFiles(limit=limit, processes=processes)
        assert had.connections * networks >= connections, f"seed {seed}"
        assert had.files_of_worker * workers >= 3 * partitions, f"seed {seed}"
        assert limit >= had.least, f"seed {seed}"


def test_what_a_network_process_shares_out_is_within_the_limit() -> None:
    for limit in range(OpenFiles(limit=0, processes=5).least, 5_000):
        had = OpenFiles(limit=limit, processes=5)
        files = had.files_of_network + SEARCHES * had.files_of_search
        assert had.connections + files + had.besides <= limit


def test_small_limit_still_serves_more_than_a_handful() -> None:
    assert OpenFiles(limit=256, processes=6).connections == 92


MB = 1 << 20


def test_what_clients_can_make_a_broker_hold_is_in_every_limit() -> None:
    assert required_by_process() > 200 * MB
    assert recommended_memory(processes=6, arena_bytes=0) > 200 * MB


def test_arenas_and_processes_count() -> None:
    few = recommended_memory(processes=6, arena_bytes=100 * MB)
    assert few == 420 * MB
    assert recommended_memory(processes=7, arena_bytes=100 * MB) > few
    assert recommended_memory(processes=6, arena_bytes=200 * MB) == few + 100 * MB
