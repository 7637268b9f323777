"""A change that does not fit into the coordination store is rejected as a whole.

This is checked at the first write of each operation, before anything has changed. An operation that fails after its
first write ends the controller; the next controller completes the change.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.ports import NoSpaceLeft


class PartlyStored(Exception):
    """The store has the beginning of a change, and no space for the rest."""


@contextmanager
def reject_without_space() -> Iterator[None]:
    """For the first write of an operation. Raises KAFKA_STORAGE_ERROR, after which clients retry."""
    try:
        yield
    except NoSpaceLeft as error:
        text = f"The disk has no space to store the change: {error}."
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
