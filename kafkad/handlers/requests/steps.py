"""Requests about many partitions are handled in steps, so that other requests wait for one step at most.

The handlers are generators that yield the reason of each pause. A search that may wait for a disk is a `LogSearch`,
which runs in a thread.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

from kafkad.core.log.reading.log_reader import FoundOffset, LogReader
from kafkad.handlers.requests.broker_view import ManifestPending

ROWS_A_STEP = 128
"""About one millisecond of work."""


class Pause(Enum):
    """The reason of a handler's pause."""

    TURN = auto()
    """The step is complete: resume after the other requests' steps."""
    MANIFEST = auto()
    """The handler has requested a manifest: resume when a manifest arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSearch:
    """A thread calls `search` with a copy of `reader` with its own files, and sends back the result or exception."""

    reader: LogReader
    search: Callable[[LogReader], FoundOffset | None]


class LogMoved(Exception):
    """The log changed during the search, so the result is invalid: search again."""


Waits = Pause | LogSearch | None
"""None, from a request that is read in steps (`kafkad.wire.steps`), means `Pause.TURN`."""
Steps = Generator[Waits, Any, bytes]
"""A generator that returns the response body. Raises MalformedRequest."""
Row = TypeVar("Row")
Result = TypeVar("Result")


def in_steps(
    rows: Sequence[Row],
    handle: Callable[[Row], Generator[Waits, Any, Result]],
    request_manifests: Callable[[Iterable[Row]], None],
) -> Generator[Waits, Any, list[Result]]:
    """The result of `handle` for each row. `request_manifests` requests the manifests for one step."""
    results = []
    for first in range(0, len(rows), ROWS_A_STEP):
        if first:
            yield Pause.TURN
        step = rows[first : first + ROWS_A_STEP]
        request_manifests(step)
        for row in step:
            results.append((yield from handle(row)))
    return results


def retry_until_read(read: Callable[[], Generator[Waits, Any, Result]]) -> Generator[Waits, Any, Result]:
    """The result of `read` for one partition; repeated when a manifest arrives or the log has changed."""
    while True:
        try:
            return (yield from read())
        except ManifestPending:
            pause = Pause.MANIFEST
        except LogMoved:
            pause = Pause.TURN
        yield pause
