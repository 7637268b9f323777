"""What takes a look at every shard is made once for all who ask meanwhile."""

from collections.abc import Generator

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.processes.worker.coordinators.shared_response import SharedResponse
from tests.processes.sent_frames import SentFrames

REPORTER, CLEANER = ProcessKey("reporter", 0), ProcessKey("cleaner", 0)


class Counting:
    """Returns the number of earlier calls, after two steps."""

    def __init__(self) -> None:
        self._calls = 0

    def steps(self) -> Generator[None, None, bytes]:
        number, self._calls = self._calls, self._calls + 1
        yield
        yield
        return b"%d" % number


def test_who_asks_while_an_answer_is_made_gets_the_same_one() -> None:
    sent = SentFrames()
    answer = SharedResponse(Counting(), sent)
    answer.request(REPORTER)
    answer.tick(0)
    answer.request(CLEANER)
    while answer.is_busy:
        assert not sent.frames
        answer.tick(0)
    assert sorted(sent.frames) == [(CLEANER, b"0"), (REPORTER, b"0")]
    answer.request(CLEANER)
    while answer.is_busy:
        answer.tick(0)
    assert sent.frames[2:] == [(CLEANER, b"1")]
