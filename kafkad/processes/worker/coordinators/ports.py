"""The other parts of a worker, as its coordinators use them."""

from collections.abc import Callable
from typing import Any, Protocol

from kafkad.core.coordinator.shard import TxnMarkersToSend
from kafkad.core.errors import ErrorCode
from kafkad.processes.worker.owned import OwnedPartition


class TxnMarkersSender(Protocol):
    """Sends the markers of decided transactions to the owners of the partitions."""

    def add(self, owned: OwnedPartition, requested: TxnMarkersToSend) -> None: ...

    def forget(self, owned: OwnedPartition) -> None: ...


class OffsetVerification(Protocol):
    """Verifies that the transaction of a TxnOffsetCommit includes the offsets, before the commit (KIP-890)."""

    def verify(
        self,
        owned: OwnedPartition,
        request: Any,
        version: int,
        proceed: Callable[[int], None],
        reject: Callable[[ErrorCode], None],
    ) -> None: ...
