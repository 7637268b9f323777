"""Removes nodes with all nodes that others created below them (Apache Kafka: deleteRecursive)."""

from collections.abc import Sequence
from contextlib import suppress

from kafkad.core.coordination_store import Check, CoordinationError, CoordinationStore, Delete, NoNode, NotEmpty


def remove(store: CoordinationStore, paths: Sequence[str], guard: Check) -> None:
    """Remove the nodes in this order; a missing node is no error. Raises the errors of the store."""
    outcomes = store.pipelined([Delete(path) for path in paths], guard=guard)
    for path, outcome in zip(paths, outcomes, strict=True):
        if isinstance(outcome, NotEmpty):
            below = _with_all_below(store, path)
            _raise_all_but(NoNode, store.pipelined([Delete(each) for each in reversed(below)], guard=guard))
        else:
            _raise_all_but(NoNode, [outcome])


def _raise_all_but(expected: type[CoordinationError], outcomes: Sequence[object]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, CoordinationError) and not isinstance(outcome, expected):
            raise outcome


def _with_all_below(store: CoordinationStore, path: str) -> list[str]:
    """The node and all nodes below it, parents first."""
    found: list[str] = []
    pending = [path]
    while pending:
        found.append(pending.pop())
        with suppress(NoNode):
            pending += [f"{found[-1]}/{name}" for name in store.children(found[-1])]
    return found
