"""How many elements may the arrays of one request have, all together, and how large may it be?

A request is decoded and answered in one go or in few, and every element is some microseconds in which the process
serves nobody else: a megabyte of empty names would be seconds. The limits are far above what clients ask for, and a
request over one of them closes its connection, as one over `socket.request.max.bytes` does. They are found while
the request is read: what is refused has cost no more than what is taken.
"""

from kafkad.wire import api_table
from kafkad.wire.primitives import MalformedRequest

LARGEST_BYTES = 16 * 1024 * 1024
"""Of any request but Produce, which is as large as `socket.request.max.bytes` says."""

DEFAULT_ELEMENTS = 10_000
_ELEMENTS = {
    api_table.PRODUCE: 20_000,
    api_table.FETCH: 20_000,
    api_table.LIST_OFFSETS: 120_000,
    api_table.METADATA: 120_000,
    api_table.OFFSET_COMMIT: 30_000,
    api_table.OFFSET_FETCH: 60_000,
    api_table.OFFSET_FOR_LEADER_EPOCH: 120_000,
    api_table.JOIN_GROUP: 1_000,
    api_table.LIST_GROUPS: 100,
    api_table.LIST_TRANSACTIONS: 1_000,
    api_table.DESCRIBE_PRODUCERS: 2_000,
    api_table.UPDATE_FEATURES: 100,
    api_table.CREATE_TOPICS: 50_000,
    api_table.CREATE_PARTITIONS: 50_000,
    api_table.DESCRIBE_CONFIGS: 20_000,
    api_table.ALTER_CONFIGS: 20_000,
    api_table.INCREMENTAL_ALTER_CONFIGS: 20_000,
    api_table.DESCRIBE_LOG_DIRS: 50_000,
}


def most_elements(api_key: int) -> int:
    return _ELEMENTS.get(api_key, DEFAULT_ELEMENTS)


class Allowance:
    """What one request may still have. Tagged fields count as elements: they are an array, too."""

    __slots__ = ("_most", "left")

    def __init__(self, most: int) -> None:
        self._most = most
        self.left = most

    def renew(self) -> None:
        """The next request begins."""
        self.left = self._most

    def take(self, count: int) -> None:
        """An array has `count` elements, or is null if that is negative. Raises MalformedRequest."""
        if count > 0:
            self.left -= count
            if self.left < 0:
                raise MalformedRequest(
                    f"its arrays have {self._most - self.left} elements or more, {self._most} are taken at most"
                )


def allowance_of(api_key: int) -> Allowance:
    return Allowance(most_elements(api_key))
