"""Requests that may be long are read in steps: a generator that pauses, so that others are served meanwhile."""

from collections.abc import Generator
from typing import TypeVar

Message = TypeVar("Message")
Reading = Generator[bool, None, Message]
"""Ends with the message. Its pauses are all alike: False, as it waits for nothing. Raises MalformedRequest."""

STEP = 500
"""So many elements are read in a step: a millisecond or less."""
