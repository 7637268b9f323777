"""A process that dies before one of its changes of names in real directories: what comes after it does not happen."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

CHANGES = ("rename", "replace", "unlink", "rmdir", "mkdir")


class Died(Exception):
    """Of the call that was not made any more; no handler of errors of disks takes it for one."""


class MortalProcess:
    """From now on dies before the change after so many, in all threads; `names` are the calls of `os` that count."""

    def __init__(self, patch: pytest.MonkeyPatch, changes: int, names: Sequence[str] = CHANGES) -> None:
        self.is_dead = False
        self._left = changes
        for name in names:
            patch.setattr(os, name, self._watched(getattr(os, name)))

    def _watched(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **options: Any) -> Any:
            self.is_dead |= self._left == 0
            if self.is_dead:
                raise Died(change.__name__)
            self._left -= 1
            return change(*args, **options)

        return made
