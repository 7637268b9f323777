"""The limits of a request: its size, and the number of elements in all its arrays together.

A request is handled in one step or few, and each element takes some microseconds: a megabyte of empty names would block
the other clients of the process for seconds. The limits are far above the requests of real clients. A request above a
limit closes its connection, as above `socket.request.max.bytes`. Limits are checked while the request is read, so a
rejected request costs no more than an accepted one.
"""

from kafkad.wire import api_table
from kafkad.wire.primitives import MalformedRequest

LARGEST_BYTES = 16 * 1024 * 1024
"""The largest size of all requests except Produce, which may have `socket.request.max.bytes`."""

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
    """The number of elements that one request may still have. Tagged fields count too: they are an array."""

    __slots__ = ("_most", "remaining")

    def __init__(self, most: int) -> None:
        self._most = most
        self.remaining = most

    def renew(self) -> None:
        """Begin the next request."""
        self.remaining = self._most

    def take(self, count: int) -> None:
        """Subtract an array of `count` elements; a null array has a negative `count`. Raises MalformedRequest."""
        if count > 0:
            self.remaining -= count
            if self.remaining < 0:
                raise MalformedRequest(
                    f"its arrays have {self._most - self.remaining} elements or more, at most {self._most} are allowed"
                )


def allowance_of(api_key: int) -> Allowance:
    return Allowance(most_elements(api_key))
