"""What a worker says of how far it is with loading."""

from tests.processes.pieces import TOPIC, WORKER, Pieces
from tests.tools.raw_requests import batch, produce


def test_all_is_done_when_every_log_is_loaded(pieces: Pieces) -> None:
    assert pieces.registry.progress(WORKER) == (2000, 2000)


def test_next_life_begins_to_count_anew(pieces: Pieces) -> None:
    client = pieces.connect()
    client.ask(produce({(TOPIC, 0): batch()}))
    pieces.kill(WORKER)
    assert pieces.registry.progress(WORKER) == (0, 0)
    pieces.begin(WORKER)
    pieces.run_until_online()
    done, total = pieces.registry.progress(WORKER)
    assert 1000 <= done <= total == 2000
