"""The sessions of a broker with its coordination store, one after the other."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from kafkad.core.coordination_store import CoordinationStore

Result = TypeVar("Result")


class Stopped(Exception):
    """The broker stops, and the session is no longer required."""


class Sessions(Protocol):
    """All methods except `stop` run in the store's thread."""

    def begin(self, work: Callable[[CoordinationStore], Result]) -> Result:
        """Do `work` in a new session, and again in another one after an error that passes.

        Raises `Stopped`, UnusableMetadata if the store forbids changes, and other errors of `work`; then the session is
        closed.
        """

    def pause(self, seconds: float) -> None:
        """Raises `Stopped`."""

    def stop(self) -> None:
        """End all waits for the store."""

    def end(self, store: Any) -> None:
        """End the session of this store, which `begin` has opened."""
