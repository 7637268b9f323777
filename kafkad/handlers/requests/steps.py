"""Requests about many partitions are answered in steps: nobody else waits longer than one of them takes.

Their handlers are generators. They yield what they wait for, and are gone on with when it is there; what may have to
wait for a disk is a `LogSearch`, made where nobody else waits for it.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

from kafkad.core.log.reading.log_reader import FoundOffset, LogReader
from kafkad.handlers.requests.view import NotYet

ROWS_A_STEP = 128
"""About a millisecond of look-ups."""


class Pause(Enum):
    """Why a handler stops for a while."""

    TURN = auto()
    """It was busy for long enough: go on when others had their turn."""
    NEWS = auto()
    """A manifest has been asked for: go on when one has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSearch:
    """`look` is given a reader like this one, with files of its own; its result, or what it raises, comes back."""

    reader: LogReader
    look: Callable[[LogReader], FoundOffset | None]


class LogMoved(Exception):
    """The log has changed while it was looked into, so that what was found there means nothing: look again."""


Waits = Pause | LogSearch | None
"""None, from a request that is read in steps (`kafkad.wire.steps`), is as `Pause.TURN`."""
Steps = Generator[Waits, Any, bytes]
"""Ends with the response body. Raises MalformedRequest."""
Row = TypeVar("Row")
Result = TypeVar("Result")


def in_steps(
    rows: Sequence[Row],
    answer: Callable[[Row], Generator[Waits, Any, Result]],
    ask_ahead: Callable[[Iterable[Row]], None],
) -> Generator[Waits, Any, list[Result]]:
    """What `answer` says of each row. `ask_ahead` has the manifests asked for that a step will need."""
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
    """Look at one partition, again when a manifest has come or the log has moved."""
    while True:
        try:
            return (yield from look())
        except NotYet:
            yield Pause.NEWS
        except LogMoved:
            yield Pause.TURN
