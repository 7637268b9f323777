"""The topic names that the members of a group subscribe to; equal lists are stored once.

So the cost of a heartbeat does not depend on the number of members, and thousands of names take little memory.
"""

from collections.abc import Iterator

from kafkad.core.errors import ErrorCode, KafkaError

Names = tuple[str, ...]
MAX_SUBSCRIBED_BYTES = 16 << 20
"""The limit of the distinct name lists of a group. They stay in memory, and each join reads them."""

_NAME_BYTES = 32
"""The approximate memory overhead of a name."""


class SubscribedNames:
    """The distinct name lists of a group's members; `bytes` is their approximate memory."""

    __slots__ = ("_by_names", "bytes")

    def __init__(self) -> None:
        self._by_names: dict[Names, tuple[Names, int]] = {}
        """(stored list, number of members with it)."""
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
        """`bytes` with one more member with these names."""
        return self.bytes if names in self._by_names else self.bytes + _bytes_of(names)

    def add(self, names: Names) -> Names:
        """Count one more member with these names; returns the stored list."""
        stored, members = self._by_names.get(names, (names, 0))
        if not members:
            self.bytes += _bytes_of(names)
        self._by_names[stored] = stored, members + 1
        return stored

    def remove(self, names: Names) -> None:
        """Count one member less with these names."""
        stored, members = self._by_names[names]
        if members > 1:
            self._by_names[stored] = stored, members - 1
        else:
            del self._by_names[names]
            self.bytes -= _bytes_of(names)


def check_names_fit(subscribed: SubscribedNames, names: Names) -> None:
    """Raises GROUP_MAX_SIZE_REACHED if the names of one more member exceed the limit."""
    if subscribed.bytes_with(names) > MAX_SUBSCRIBED_BYTES:
        text = f"The members of the group subscribe to too many different topics: over {MAX_SUBSCRIBED_BYTES} bytes."
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def _bytes_of(names: Names) -> int:
    return sum(map(len, names)) + _NAME_BYTES * len(names)
