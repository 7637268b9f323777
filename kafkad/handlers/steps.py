"""How does a handler answer a request that may name a hundred thousand partitions? In steps: a generator that pauses.

Whoever runs it serves others meanwhile. What a handler reads of the broker's state may change between two steps, as it
may between two requests.
"""

from collections.abc import Generator

STEP = 200
"""A step looks at so many topics or partitions at most: a millisecond or two."""

Steps = Generator[bool, None, bytes]
"""Ends with the response body. Each pause says whether it waits for an owner's manifest; if not, it is only somebody
else's turn. Raises MalformedRequest."""
