"""How many elements may all arrays of one request have together, and how large may it be?

A request is decoded and answered in one step or in few. Every element takes some microseconds in which the process
serves no other client: a megabyte of empty names would take seconds. The limits are far above what clients send. A
request over a limit closes its connection, as one over `socket.request.max.bytes` does. Limits are checked while the
request is read, so a refused request costs no more than a served one.
"""

from kafkad.wire import api_table
from kafkad.wire.primitives import MalformedRequest

LARGEST_BYTES = 16 * 1024 * 1024
"""The size of any request but Produce, which may be as large as `socket.request.max.bytes`."""

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
    api_table.ALTER_REPLICA_LOG_DIRS: 50_000,
    api_table.ALTER_PARTITION_REASSIGNMENTS: 50_000,
    api_table.DESCRIBE_LOG_DIRS: 50_000,
}


def most_elements(api_key: int) -> int:
    return _ELEMENTS.get(api_key, DEFAULT_ELEMENTS)


class Allowance:
    """How many elements one request may still have. Tagged fields count too: they are an array."""

    __slots__ = ("_most", "left")

    def __init__(self, most: int) -> None:
        self._most = most
        self.left = most

    def renew(self) -> None:
        """Begin the next request."""
        self.left = self._most

    def take(self, count: int) -> None:
        """Take off an array of `count` elements; a null array has a negative `count`. Raises MalformedRequest."""
        if count > 0:
            self.left -= count
            if self.left < 0:
                raise MalformedRequest(
                    f"its arrays have {self._most - self.left} elements or more, {self._most} are taken at most"
                )


def allowance_of(api_key: int) -> Allowance:
    return Allowance(most_elements(api_key))
