"""What the coordinators of a worker need of its other parts."""

from collections.abc import Callable
from typing import Any, Protocol

from kafkad.core.coordinator.shard import TxnMarkersToSend
from kafkad.core.errors import ErrorCode
from kafkad.processes.worker.owned import OwnedPartition


class TxnMarkersSender(Protocol):
    """Sends the markers of decided transactions to the owners of the partitions."""

    def add(self, owned: OwnedPartition, wanted: TxnMarkersToSend) -> None: ...

    def forget(self, owned: OwnedPartition) -> None: ...


class OffsetVerification(Protocol):
    """Asks whether a commit's transaction includes the offsets, before the commit is looked at (KIP-890)."""

    def verify(
        self,
        owned: OwnedPartition,
        request: Any,
        version: int,
        proceed: Callable[[int], None],
        refuse: Callable[[ErrorCode], None],
    ) -> None: ...
