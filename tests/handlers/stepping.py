"""Handlers that answer in steps, gone through by a test at one go."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeVar

from kafkad.core.log.reading.log_reader import ManifestStale, SearchPaused
from kafkad.core.log.segments.indexed_batches import WrongIndex
from kafkad.handlers.partitions.damage import DAMAGE
from kafkad.handlers.requests.broker_view import ManifestPending
from kafkad.handlers.requests.steps import LogSearch, Pause, Waits

Result = TypeVar("Result")


def finished(steps: Generator[Waits, Any, Result]) -> Result:
    """The body. Searches are made at once; raises ManifestPending where the handler waits for a manifest."""
    tick: Callable[[], Waits] = partial(next, steps)
    while True:
        try:
            waits = tick()
        except StopIteration as end:
            result: Result = end.value
            return result
        if waits is Pause.MANIFEST:
            raise ManifestPending
        tick = _searched(steps, waits) if isinstance(waits, LogSearch) else partial(next, steps)


def _searched(steps: Generator[Waits, Any, Any], search: LogSearch) -> Callable[[], Waits]:
    try:
        return partial(steps.send, search.search(search.reader))
    except (SearchPaused, ManifestStale, WrongIndex, *DAMAGE) as error:
        return partial(steps.throw, error)
