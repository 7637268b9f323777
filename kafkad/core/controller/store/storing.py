"""What becomes of a change that the coordination store has no room for?

It is refused as a whole: the first write of each verb is checked here, and nothing has changed when that fails. A
verb that can't go on after its first write ends the controller; the next one completes what it finds.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.ports import NoSpaceLeft


class HalfStored(Exception):
    """The store has the beginning of a change, and no room for the rest."""


@contextmanager
def stored_or_refused() -> Iterator[None]:
    """Around the first write of a verb. Raises KAFKA_STORAGE_ERROR, after which clients try again."""
    try:
        yield
    except NoSpaceLeft as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"There is no room to store the change: {error}.") from error
