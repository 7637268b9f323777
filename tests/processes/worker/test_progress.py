"""What a worker says of how far it is with loading."""

from collections.abc import Callable

from kafkad.core.controller.deltas import BrokerConfigChanged
from kafkad.core.controller.image import DEFAULT_BROKER
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


def test_how_much_is_read_ahead_is_what_the_option_says_now(make_pieces: Callable[..., Pieces]) -> None:
    """A recovery begins after the first metadata, which brings the changes that were made by requests."""
    option = "num.recovery.threads.per.data.dir"
    pieces = make_pieces(**{option.replace(".", "_"): "3"})
    assert pieces.worker.loader.read_ahead.threads == 3
    pieces.publish(BrokerConfigChanged(DEFAULT_BROKER, {option: "5"}))
    pieces.run(lambda: pieces.worker.loader.read_ahead.threads == 5, "the worker has heard of it")
