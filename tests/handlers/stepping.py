"""Handlers that answer in steps, gone through by a test at one go."""

from collections.abc import Callable
from functools import partial

from kafkad.core.log.reading import ManifestStale, SearchGoesOn
from kafkad.handlers.damage import DAMAGE
from kafkad.handlers.steps import LogSearch, Pause, Steps, Waits
from kafkad.handlers.view import NotYet


def finished(steps: Steps) -> bytes:
    """The body. Searches are made at once; raises NotYet where the handler waits for a manifest."""
    go_on: Callable[[], Waits] = partial(next, steps)
    while True:
        try:
            waits = go_on()
        except StopIteration as end:
            body: bytes = end.value
            return body
        if waits is Pause.NEWS:
            raise NotYet
        go_on = _searched(steps, waits) if isinstance(waits, LogSearch) else partial(next, steps)


def _searched(steps: Steps, search: LogSearch) -> Callable[[], Waits]:
    try:
        return partial(steps.send, search.look(search.reader))
    except (SearchGoesOn, ManifestStale, *DAMAGE) as error:
        return partial(steps.throw, error)
