"""A request whose partitions are answered by their owners: split by worker, gathered into one reply."""

from typing import Protocol

from kafkad.wire.processes.descriptors import ControlMessage


class OwnerQuestion(Protocol):
    """One DeleteRecords or DescribeProducers under way. Made by the API's module from the request."""

    timeout_ms: int | None
    """How long the client lets the owners take; None: it does not say."""

    def workers(self) -> list[int]:
        """Who has to be asked; empty when everything is known already."""

    def message(self, worker: int, part_id: int, deadline_ms: int) -> ControlMessage:
        """What to ask `worker`; its answer carries `part_id`."""

    def answered(self, worker: int, message: ControlMessage) -> None: ...

    def lost(self, worker: int) -> None:
        """The worker died or can't be reached: its partitions get a retriable error."""

    def body(self) -> bytes:
        """The response body, when every worker has answered or is lost."""
