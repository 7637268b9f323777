"""A request whose partitions are answered by their owners: split by worker, gathered into one reply."""

from typing import Protocol

from kafkad.wire.processes.descriptors import ControlMessage


class OwnerQuestion(Protocol):
    """One DeleteRecords, DescribeProducers or WriteTxnMarkers under way. The API's module makes it from the request."""

    timeout_ms: int | None
    """The client's timeout for the owners; None when the request has none."""

    def workers(self) -> list[int]:
        """The workers to ask; empty when the answer is known already."""

    def message(self, worker: int, part_id: int, deadline_ms: int) -> ControlMessage:
        """The question to `worker`; its answer carries `part_id`."""

    def answered(self, worker: int, message: ControlMessage) -> None: ...

    def lost(self, worker: int) -> None:
        """Give a retriable error to the partitions of a worker that died or can't be reached."""

    def body(self) -> bytes:
        """The response body, once every worker has answered or is lost."""
