"""The topic names that the members of a group subscribe to; equal lists are stored once.

So a heartbeat costs no more in a group of a thousand members than in one of ten, and thousands of names take little
memory.
"""

from collections.abc import Iterator

from kafkad.core.errors import ErrorCode, KafkaError

Names = tuple[str, ...]
SUBSCRIBED_BYTES = 16 << 20
"""The limit for the distinct name lists that the members of a group subscribe to. They stay in memory, and each join
reads them."""

_NAME_BYTES = 32
"""The approximate memory of a name without its letters, about half of it."""


class SubscribedNames:
    """The distinct name lists of a group's members; `bytes` is their approximate memory."""

    __slots__ = ("_by_names", "bytes")

    def __init__(self) -> None:
        self._by_names: dict[Names, tuple[Names, int]] = {}
        """The stored list, and how many members have it."""
        self.bytes = 0

    def __iter__(self) -> Iterator[Names]:
        return iter(self._by_names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SubscribedNames) and self._by_names == other._by_names and self.bytes == other.bytes

    def copy(self) -> "SubscribedNames":
        other = SubscribedNames()
        other._by_names = dict(self._by_names)
        other.bytes = self.bytes
        return other

    def bytes_with(self, names: Names) -> int:
        """`bytes` if one more member had these names."""
        return self.bytes if names in self._by_names else self.bytes + _bytes_of(names)

    def add(self, names: Names) -> Names:
        """One more member has these names; returns the stored list."""
        kept, members = self._by_names.get(names, (names, 0))
        if not members:
            self.bytes += _bytes_of(names)
        self._by_names[kept] = kept, members + 1
        return kept

    def remove(self, names: Names) -> None:
        """One member less has these names."""
        kept, members = self._by_names[names]
        if members > 1:
            self._by_names[kept] = kept, members - 1
        else:
            del self._by_names[names]
            self.bytes -= _bytes_of(names)


def check_names_fit(subscribed: SubscribedNames, names: Names) -> None:
    """Whether one more member may have these names. Raises GROUP_MAX_SIZE_REACHED."""
    if subscribed.bytes_with(names) > SUBSCRIBED_BYTES:
        text = f"The members of the consumer group name too many different topics: over {SUBSCRIBED_BYTES} bytes."
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def _bytes_of(names: Names) -> int:
    return sum(map(len, names)) + _NAME_BYTES * len(names)
