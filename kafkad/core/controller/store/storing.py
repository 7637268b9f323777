"""A change for which the coordination store has no room is refused as a whole.

The first write of each verb is checked here, and nothing has changed when it fails. A verb that can't go on after its
first write ends the controller; the next one completes the change.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.ports import NoSpaceLeft


class PartlyStored(Exception):
    """The store has the beginning of a change, and no room for the rest."""


@contextmanager
def stored_or_refused() -> Iterator[None]:
    """Use this around the first write of a verb. Raises KAFKA_STORAGE_ERROR, after which clients retry."""
    try:
        yield
    except NoSpaceLeft as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"There is no room to store the change: {error}.") from error
