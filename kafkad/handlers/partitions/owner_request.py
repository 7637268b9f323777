"""A request that the owners of its partitions handle: split by worker, joined into one response."""

from typing import Protocol

from kafkad.wire.processes.descriptors import ControlMessage


class OwnerRequest(Protocol):
    """A pending DeleteRecords, DescribeProducers or WriteTxnMarkers request."""

    timeout_ms: int | None
    """The client's timeout for the owners; None when the request has none."""

    def workers(self) -> list[int]:
        """The workers that get a message; empty if the response is complete already."""

    def message(self, worker: int, part_id: int, deadline_ms: int) -> ControlMessage:
        """The message to `worker`; the worker's result contains `part_id`."""

    def complete(self, worker: int, message: ControlMessage) -> None:
        """Take the results of `worker`."""

    def fail(self, worker: int) -> None:
        """Set a retriable error for the partitions of a worker that died or can't be reached."""

    def body(self) -> bytes:
        """The response body, after `complete` or `fail` for each worker."""
