"""A handler that answers in steps, gone through in one go."""

from collections.abc import Generator
from typing import TypeVar

from kafkad.handlers.view import NotYet

Result = TypeVar("Result")


def answered(steps: Generator[bool, None, Result]) -> Result:
    """What it ends with. Raises NotYet if it waits for a manifest."""
    while True:
        try:
            waits = next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        if waits:
            raise NotYet
