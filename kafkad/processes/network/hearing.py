"""What workers say to a network process: each message to the desk that waits for it."""

from kafkad.adapters.partition_table import PartitionTable
from kafkad.processes.network.assembly import Desks
from kafkad.processes.network.log_readers import LogReaders
from kafkad.wire.coordinator_messages import COORDINATION, CoordinatorAnswered, unpack_coordination
from kafkad.wire.descriptors import (
    APPENDED,
    MOVED,
    DeletedRecords,
    EndMarkersWritten,
    FilesRemoved,
    Manifest,
    Producers,
    RecordErrors,
    unpack_control,
    unpack_moved,
)


class Hearing:
    """Called by the loop with every frame of a worker; `now_ms` is that of the pass."""

    def __init__(self, desks: Desks, logs: LogReaders, table: PartitionTable) -> None:
        self._desks = desks
        self._logs = logs
        self._table = table

    def hear(self, frame: bytes, now_ms: int) -> None:
        kind = frame[0]
        if kind == APPENDED:
            self._desks.produce.appended(frame)
        elif kind == MOVED:
            self._desks.fetch.moved(unpack_moved(frame))
        elif kind == COORDINATION:
            message = unpack_coordination(frame)
            assert isinstance(message, CoordinatorAnswered), f"{type(message).__name__} is for workers"
            self._desks.coordinators.heard(message)
        else:
            self._control(frame)

    def settle(self, now_ms: int) -> None:
        """Everything of this pass was heard: who waits for something of a log looks once at all that came."""
        if self._logs.has_news:
            self._logs.has_news = False
            self._desks.fetch.manifest_arrived(now_ms)
            self._desks.answers.manifest_arrived()
        self._desks.fetch.go_on(now_ms)

    def _control(self, frame: bytes) -> None:
        message = unpack_control(frame)
        match message:
            case RecordErrors():
                self._desks.produce.explained(message)
            case Manifest():
                self._logs.arrived(message, self._table.read(message.slot))
            case FilesRemoved(slots):
                self._logs.files_removed(slots, self._table)
            case DeletedRecords() | Producers() | EndMarkersWritten():
                self._desks.owners.heard(message)
            case _:
                raise AssertionError(f"a worker does not send {type(message).__name__} to a network process")
