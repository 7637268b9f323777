"""Reading of long requests in steps, by generators that pause for the requests of other clients."""

from collections.abc import Generator
from typing import Any, TypeVar

Message = TypeVar("Message")
Reading = Generator[None, Any, Message]
"""A generator that returns the message and yields between steps. Raises MalformedRequest."""

STEP = 500
"""Elements per step: a millisecond or less."""
