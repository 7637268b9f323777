"""Nodes are removed with all that others have made below them (Apache Kafka: deleteRecursive)."""

from collections.abc import Sequence
from contextlib import suppress

from kafkad.core.coordination_store import Check, CoordinationError, CoordinationStore, Delete, NoNode, NotEmpty


def remove(store: CoordinationStore, paths: Sequence[str], guard: Check) -> None:
    """In this order; they may be gone already. Raises the errors of the store."""
    outcomes = store.pipelined([Delete(path) for path in paths], guard=guard)
    for path, outcome in zip(paths, outcomes, strict=True):
        if isinstance(outcome, NotEmpty):
            below = _with_all_below(store, path)
            _raise_all_but(NoNode, store.pipelined([Delete(each) for each in reversed(below)], guard=guard))
        else:
            _raise_all_but(NoNode, [outcome])


def _raise_all_but(fine: type[CoordinationError], outcomes: Sequence[object]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, CoordinationError) and not isinstance(outcome, fine):
            raise outcome


def _with_all_below(store: CoordinationStore, path: str) -> list[str]:
    """Parents first."""
    found: list[str] = []
    left = [path]
    while left:
        found.append(left.pop())
        with suppress(NoNode):
            left += [f"{found[-1]}/{name}" for name in store.children(found[-1])]
    return found
