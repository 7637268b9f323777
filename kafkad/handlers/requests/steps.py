"""Requests about many partitions are answered in steps: other requests wait for one step at most.

Their handlers are generators. They yield what they wait for, and are resumed when it is there. A look-up that may wait
for a disk is a `LogSearch`, which a thread makes.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

from kafkad.core.log.reading.log_reader import FoundOffset, LogReader
from kafkad.handlers.requests.broker_view import NotYet

ROWS_A_STEP = 128
"""About a millisecond of look-ups."""


class Pause(Enum):
    """Why a handler pauses."""

    TURN = auto()
    """Its turn is over: resume when other requests had theirs."""
    NEWS = auto()
    """It has asked for a manifest: resume when one has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSearch:
    """`look` gets a reader like this one, with files of its own. Its result, or its exception, is sent back."""

    reader: LogReader
    look: Callable[[LogReader], FoundOffset | None]


class LogMoved(Exception):
    """The log changed during the search, so that its result is worthless: search again."""


Waits = Pause | LogSearch | None
"""None, from a request that is read in steps (`kafkad.wire.steps`), means `Pause.TURN`."""
Steps = Generator[Waits, Any, bytes]
"""A generator that returns the response body. Raises MalformedRequest."""
Row = TypeVar("Row")
Result = TypeVar("Result")


def in_steps(
    rows: Sequence[Row],
    answer: Callable[[Row], Generator[Waits, Any, Result]],
    ask_ahead: Callable[[Iterable[Row]], None],
) -> Generator[Waits, Any, list[Result]]:
    """The result of `answer` for each row. `ask_ahead` asks for the manifests that a step needs."""
    results = []
    for first in range(0, len(rows), ROWS_A_STEP):
        if first:
            yield Pause.TURN
        step = rows[first : first + ROWS_A_STEP]
        ask_ahead(step)
        for row in step:
            results.append((yield from answer(row)))
    return results


def until_known(look: Callable[[], Generator[Waits, Any, Result]]) -> Generator[Waits, Any, Result]:
    """Look at one partition; repeat this when a manifest has come or the log has changed."""
    while True:
        try:
            return (yield from look())
        except NotYet:
            pause = Pause.NEWS
        except LogMoved:
            pause = Pause.TURN
        yield pause
