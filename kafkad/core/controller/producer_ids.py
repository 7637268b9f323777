"""Producer ids that are never given twice, also across crashes: blocks of 1,000 are claimed in the store first.

The rest of a block is abandoned when the process ends; 2^63 ids are enough for that.
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
    """Start above all producer ids in existing logs. They come from another store when this one has given none, or from
    a later state of this one when it `is_restored` from a copy.

    Otherwise the sequences of those producers would be taken for ours. Apache Kafka counts from 0, and a store that was
    lost began at an earlier time, so ours start at the present time. Otherwise does nothing once an id was given.
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
    """Somebody else has written what is no block of ids: none can be given until it is mended."""


class ProducerIdControlManager:
    """The controller's part (Kafka's name); coordinators get whole blocks."""

    def __init__(self, store: CoordinationStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._ids: range = range(0)

    def allocate(self) -> int:
        """The next id; durable before it is given out. Raises `UnreadableBlock`."""
        if not self._ids:
            self._ids = self.allocate_block()
        allocated = self._ids.start
        self._ids = self._ids[1:]
        return allocated

    def allocate_block(self) -> range:
        """A block of ids that is never given again. Raises `UnreadableBlock`."""
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

    def answer(self, code: ErrorCode) -> tuple[ErrorCode, range]:
        """A block for another broker, unless the request has an error already; errors are Kafka's."""
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
        raise UnreadableBlock(f"{nodes.PRODUCER_ID_BLOCK} ends at {end}: there are no ids after it")
    return end
