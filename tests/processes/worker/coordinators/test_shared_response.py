"""What takes a look at every shard is made once for all who ask meanwhile."""

from collections.abc import Generator

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.processes.worker.coordinators.shared_response import SharedResponse

REPORTER, CLEANER = ProcessKey("reporter", 0), ProcessKey("cleaner", 0)


def test_who_asks_while_an_answer_is_made_gets_the_same_one() -> None:
    made: list[int] = []
    sent: list[tuple[ProcessKey, bytes]] = []

    def steps() -> Generator[None, None, bytes]:
        made.append(len(made))
        yield
        yield
        return b"%d" % made[-1]

    answer = SharedResponse(steps, lambda peer, frame: sent.append((peer, frame)))
    answer.request(REPORTER)
    answer.tick(0)
    answer.request(CLEANER)
    while answer.is_busy:
        assert not sent
        answer.tick(0)
    assert sorted(sent) == [(CLEANER, b"0"), (REPORTER, b"0")]
    answer.request(CLEANER)
    while answer.is_busy:
        answer.tick(0)
    assert sent[2:] == [(CLEANER, b"1")]
