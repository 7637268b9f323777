"""Messages of workers to a network process: each goes to its request handler."""

from kafkad.adapters.shared_memory.partition_table import PartitionTable
from kafkad.processes.network.dispatch import RequestHandlers
from kafkad.processes.network.logs.readers import LogReaders
from kafkad.wire.processes.coordinator_messages import COORDINATION, CoordinatorReply, unpack_coordination
from kafkad.wire.processes.descriptors import (
    APPENDED,
    MOVED,
    DeletedRecords,
    FilesRemoved,
    Manifest,
    Producers,
    RecordErrors,
    TxnMarkersWritten,
    unpack_control,
    unpack_moved,
)


class WorkerMessages:
    """Called by the loop with every frame of a worker; `now_ms` is the time of the pass."""

    def __init__(self, request_handlers: RequestHandlers, logs: LogReaders, table: PartitionTable) -> None:
        self._request_handlers = request_handlers
        self._logs = logs
        self._table = table

    def handle(self, frame: bytes, now_ms: int) -> None:
        kind = frame[0]
        if kind == APPENDED:
            self._request_handlers.produce.appended(frame)
        elif kind == MOVED:
            self._request_handlers.fetch.moved(unpack_moved(frame))
        elif kind == COORDINATION:
            message = unpack_coordination(frame)
            assert isinstance(message, CoordinatorReply), f"{type(message).__name__} is for workers"
            self._request_handlers.coordinators.handle(message)
        else:
            self._control(frame)

    def tick(self, now_ms: int) -> None:
        """After all messages of the pass: check waiting requests once."""
        if self._logs.has_changes:
            self._logs.has_changes = False
            self._request_handlers.fetch.manifest_arrived(now_ms)
            self._request_handlers.responses.manifest_arrived()
        self._request_handlers.fetch.tick(now_ms)

    def _control(self, frame: bytes) -> None:
        message = unpack_control(frame)
        match message:
            case RecordErrors():
                self._request_handlers.produce.explained(message)
            case Manifest():
                self._logs.arrived(message, self._table.read(message.slot))
            case FilesRemoved(slots):
                self._logs.files_removed(slots, self._table)
            case DeletedRecords() | Producers() | TxnMarkersWritten():
                self._request_handlers.owners.handle(message)
            case _:
                raise AssertionError(f"a worker does not send {type(message).__name__} to a network process")
