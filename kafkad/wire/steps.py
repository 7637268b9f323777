"""Requests that may be long are read in steps: a generator that pauses, so that others are served meanwhile."""

from collections.abc import Generator
from typing import Any, TypeVar

Message = TypeVar("Message")
Reading = Generator[None, Any, Message]
"""Ends with the message. Its pauses are for others to have their turn. Raises MalformedRequest."""

STEP = 500
"""So many elements are read in a step: a millisecond or less."""
