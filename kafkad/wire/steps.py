"""Requests that may be long are read in steps, by a generator that pauses so that other clients are served."""

from collections.abc import Generator
from typing import Any, TypeVar

Message = TypeVar("Message")
Reading = Generator[None, Any, Message]
"""A generator that returns the message. It yields to let other requests have their turn. Raises MalformedRequest."""

STEP = 500
"""Elements that are read in one step: a millisecond or less."""
