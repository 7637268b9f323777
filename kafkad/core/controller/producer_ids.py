"""Producer ids that are never given twice, also across crashes: blocks of 1,000 are claimed in the store first.

The rest of a block is abandoned when the process ends; 2^63 ids are enough for that.
"""

from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import BadVersion, CoordinationStore

BLOCK_SIZE = 1000
_IDS_A_MS = 1000


def start_above_foreign_ids(store: CoordinationStore, broker_id: int, wall_ms: int) -> None:
    """Start above all producer ids in existing logs. They come from another store when this one has given none.

    Otherwise the sequences of those producers would be taken for ours. Apache Kafka counts from 0, and a store that was
    lost began at an earlier time, so ours start at the present time. Does nothing once an id was given.
    """
    node = store.get(nodes.PRODUCER_ID_BLOCK)
    if not node.data:
        last = wall_ms * _IDS_A_MS - 1
        claim = nodes.ProducerIdBlockNode(broker=broker_id, block_start=str(last), block_end=str(last))
        store.set_data(nodes.PRODUCER_ID_BLOCK, nodes.encode(claim), node.version)


class ProducerIdControlManager:
    """The controller's part (Kafka's name); coordinators get whole blocks."""

    def __init__(self, store: CoordinationStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._ids: range = range(0)

    def allocate(self) -> int:
        """The next id; durable before it is given out."""
        if not self._ids:
            self._ids = self.allocate_block()
        allocated = self._ids.start
        self._ids = self._ids[1:]
        return allocated

    def allocate_block(self) -> range:
        """A block of ids that is never given again."""
        while True:
            node = self._store.get(nodes.PRODUCER_ID_BLOCK)
            # Empty until the first block of the cluster.
            start = int(nodes.decode_block(node.data).block_end) + 1 if node.data else 0
            block = range(start, start + BLOCK_SIZE)
            claim = nodes.ProducerIdBlockNode(
                broker=self._broker_id, block_start=str(block.start), block_end=str(block.stop - 1)
            )
            try:
                self._store.set_data(nodes.PRODUCER_ID_BLOCK, nodes.encode(claim), node.version)
            except BadVersion:
                continue  # another broker claimed a block between our read and our write
            return block
