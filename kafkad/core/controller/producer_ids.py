"""Producer ids are unique, also across crashes: blocks of 1,000 ids are claimed in the store before they are used.

The rest of a block is abandoned when the process ends; 2^63 ids are enough.
"""

from contextlib import suppress

from msgspec import MsgspecError

from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import BadVersion, CoordinationStore
from kafkad.core.errors import ErrorCode

BLOCK_SIZE = 1000
_IDS_A_MS = 1000


def start_above_foreign_ids(
    store: CoordinationStore, broker_id: int, wall_ms: int, *, is_restored: bool = False
) -> None:
    """Raise the next block above all producer ids in existing logs. Such ids come from another store if this store has
    allocated none, or from a later state of this store if it `is_restored` from a copy. Otherwise do nothing.

    Else the broker would reuse the ids of producers whose sequence numbers are in the logs. Apache Kafka counts from 0,
    and a lost store of kafkad started at an earlier time, so this one starts at the present time.
    """
    node = store.get(nodes.PRODUCER_ID_BLOCK)
    if is_restored or not node.data:
        last = wall_ms * _IDS_A_MS - 1
        if node.data:
            with suppress(UnreadableBlock):
                last = max(last, _end_of(node.data) + 1)
        claim = nodes.ProducerIdBlockNode(broker=broker_id, block_start=str(last), block_end=str(last))
        store.set_data(nodes.PRODUCER_ID_BLOCK, nodes.encode(claim), node.version)


class UnreadableBlock(ValueError):
    """The block in the store can't be read: no id can be allocated until an operator repairs the node."""


class ProducerIdControlManager:
    """Allocates producer ids for the controller (Kafka's name); coordinators get whole blocks."""

    def __init__(self, store: CoordinationStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._ids: range = range(0)

    def allocate(self) -> int:
        """The next id, whose block is stored. Raises `UnreadableBlock`."""
        if not self._ids:
            self._ids = self.allocate_block()
        allocated = self._ids.start
        self._ids = self._ids[1:]
        return allocated

    def allocate_block(self) -> range:
        """A block of ids that is never allocated again. Raises `UnreadableBlock`."""
        while True:
            node = self._store.get(nodes.PRODUCER_ID_BLOCK)
            # Empty until the first block of the cluster.
            start = _end_of(node.data) + 1 if node.data else 0
            block = range(start, start + BLOCK_SIZE)
            claim = nodes.ProducerIdBlockNode(
                broker=self._broker_id, block_start=str(block.start), block_end=str(block.stop - 1)
            )
            try:
                self._store.set_data(nodes.PRODUCER_ID_BLOCK, nodes.encode(claim), node.version)
            except BadVersion:
                continue  # another broker claimed a block between our read and our write
            return block

    def block_response(self, code: ErrorCode) -> tuple[ErrorCode, range]:
        """A block for another broker, or the error `code` that its request has already; errors are Kafka's."""
        try:
            return code, self.allocate_block() if code is ErrorCode.NONE else range(0)
        except UnreadableBlock:
            return ErrorCode.UNKNOWN_SERVER_ERROR, range(0)


def _end_of(data: bytes) -> int:
    try:
        end = int(nodes.decode_block(data).block_end)
    except (MsgspecError, ValueError, RecursionError) as error:
        raise UnreadableBlock(f"{nodes.PRODUCER_ID_BLOCK} can't be read: {error}") from error
    if not -1 <= end < 2**63 - BLOCK_SIZE:
        raise UnreadableBlock(f"{nodes.PRODUCER_ID_BLOCK} ends at {end}: there are no producer ids above")
    return end
